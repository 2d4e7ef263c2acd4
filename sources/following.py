"""Conversations whose telling paused where their file ended: those that are being written now.

A watcher keeps the newest of them in memory. One goes on when its file has grown by whole lines and nothing else that
its telling depends on is different: the proof is the digest of all that was read, the file's tellings and companions
as they are now, and that no other file holds copies of its records. Else it is forgotten and the file is told from its
beginning, which is always right.
"""

from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from sources.stillness import Stillness

if TYPE_CHECKING:
    from sources.keys import Keys
    from sources.planning import PlannedConversation, Told
    from sources.provider import Provider, Telling
    from sources.surveying import FoundFile

FOLLOWED_MAX: Final = 64  # sessions that are written at once; each holds its open turn and an index of its records


class Followed(msgspec.Struct):
    """A paused telling, what it was made of, and the keys of its records."""

    telling: "Telling"
    told: "Told"
    keys: "Keys"
    companions: bytes


class Following:
    """The paused tellings, by path."""

    def __init__(self) -> None:
        self._by_path: OrderedDict[str, Followed] = OrderedDict()

    def take(self, found: "FoundFile", provider: "Provider") -> Followed | None:
        """The file's paused telling, when it can go on; either way it is no longer kept here."""
        followed = self._by_path.pop(found.path, None)
        if followed is None or found.level is not Stillness.GROWING or followed.companions != _companions(found):
            return None
        growing = followed.told.growing
        if growing is None or not growing.is_continued():
            return None
        try:
            tellings = list(provider.tellings(Path(found.path), lambda _bad: None))
        except OSError:
            return None
        return followed if tellings == [followed.telling] else None

    def keep(self, found: "FoundFile", planned: "PlannedConversation", keys: "Keys | None") -> None:
        """Remember a file's only conversation, when its telling has paused."""
        told = planned.told
        if told is None or keys is None or not told.has_paused:
            return
        self._by_path[found.path] = Followed(planned.telling, told, keys, _companions(found))
        if len(self._by_path) > FOLLOWED_MAX:
            self._by_path.popitem(last=False)


def _companions(found: "FoundFile") -> bytes:
    """The part of the signature that is about other files."""
    return msgspec.json.encode(msgspec.json.decode(found.signature)[1:])
