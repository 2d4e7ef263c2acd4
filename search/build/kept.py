"""What a search pack keeps of texts, decoded from its stored bytes: for those who prove that something is gone."""

from collections.abc import Iterator

from artifacts.store import Store
from search.opened import OpenPack
from search.pack import INDEX_NAMES


def kept(store: Store, identity: str) -> Iterator[tuple[str, int, str]]:
    """Partition, position and stored text of every chunk of both indexes: texts are kept as they were said.

    The engine's files hold single words beside, and only those that a kept chunk has: a pack is written anew, never
    changed.
    """
    pack = OpenPack(store, identity, any_analyzer=True)  # a text is a text, whatever cut its words
    try:
        for name in INDEX_NAMES:
            for row in range(pack.description.chunks.get(name, 0)):
                chunk = pack.chunk(name, row)
                yield chunk.partition, chunk.position, chunk.text
    finally:
        pack.close()
