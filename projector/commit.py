"""The commit: the exclusive creation of the next manifest, after every file it names is durable."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from artifacts.layout import CURRENT, base_name, content_id, encode_base, generation_name
from artifacts.manifest import Manifest, SignedManifest, sign_manifest
from artifacts.newest import newest_number
from artifacts.store import Store
from polyc.clock import Clock
from polyc.errors import CorruptError, UnavailableError
from polyc.signing import SignerSource


class LostRaceError(UnavailableError):
    """Another projector published this number first: look again, plan again."""


@contextmanager
def store_failures(store: Store, *, known: Callable[[], int | None]) -> Iterator[None]:
    """Disk full, read-only, store away: nothing was named, so nothing was published; try again.

    A file that is missing when there is a newer generation than the `known` one is collected, not lost: that race
    went to somebody else.
    """
    try:
        yield
    except CorruptError as error:
        if error.kind != "missing" or newest_number(store) == known():
            raise
        raise LostRaceError("another projector published first, and its older packs were collected") from error
    except OSError as error:
        raise UnavailableError(f"the artifact store failed ({error.strerror})") from error


def following(current: SignedManifest, **changes: Any) -> Manifest:
    """The current manifest's child with these changes."""
    body = msgspec.structs.replace(current.body, **changes)
    return msgspec.structs.replace(body, generation=current.body.generation + 1, parent=current.sha256)


def commit(store: Store, body: Manifest, *, signer: SignerSource, clock: Clock) -> Manifest:
    """Sign and publish; LostRaceError when the number is taken (what was written stays unnamed)."""
    body = msgspec.structs.replace(body, created_at_us=clock.now_us())
    if not store.create(generation_name(body.generation), sign_manifest(body, signer.current)):
        raise LostRaceError("another projector published first")
    store.hint(CURRENT, str(body.generation).encode())
    return body


def write_base(store: Store, packs: Sequence[str]) -> str:
    """Make the list of base packs durable; returns its id."""
    content = encode_base(packs)
    base_id = content_id(content)
    store.create(base_name(base_id), content)
    return base_id
