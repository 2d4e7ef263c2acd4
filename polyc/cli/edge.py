"""The running edge, as a command finds it: where it listens, and the last grant that this user was given for it.

    run/edge.json     {"url": "http://127.0.0.1:8421"}       written by `polyc serve query` while it listens
    run/grants.json   {"admin:": ["<token>", <ends at, ms>]}  0600: what a command minted, until it ends in minutes

So a command that asks again needs neither journal nor keys, and starts in a tenth of the time. The files lie in the
0700 folder of a user who can mint grants with the keys beside it; a revoked grant is refused by the edge as ever.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from polyc.dataroot import DataRoot
from polyc.durable import write_file

_EDGE: Final = "edge.json"
_GRANTS: Final = "grants.json"
_MARGIN_MS: Final = 30_000  # a grant this near to its end is minted anew
_KEPT_MAX: Final = 64

Grants = dict[str, tuple[str, int]]


@contextmanager
def announced(root: DataRoot) -> Iterator[Callable[[int], None]]:
    """Gives what an edge calls with its port once it listens; the announcement goes with the block."""
    path = root.path / "run" / _EDGE

    def ready(port: int) -> None:
        write_file(path, msgspec.json.encode({"url": f"http://127.0.0.1:{port}"}), mode=0o600)

    try:
        yield ready
    finally:
        path.unlink(missing_ok=True)


def edge_url(root: DataRoot) -> str | None:
    """Where the edge said that it listens; nothing may be there any more."""
    with suppress(OSError, msgspec.DecodeError, KeyError):
        content = (root.path / "run" / _EDGE).read_bytes()
        return msgspec.json.decode(content, type=dict[str, str])["url"]
    return None


def kept_grant(root: DataRoot, subject: str, *, now_ms: int) -> str | None:
    """The subject's grant, unless it ends soon."""
    token, ends_at_ms = _grants(root).get(subject, ("", 0))
    return token if ends_at_ms - _MARGIN_MS > now_ms else None


def keep_grant(root: DataRoot, subject: str, token: str, ends_at_ms: int, *, now_ms: int) -> None:
    """Keep a grant for the next command; those that ended go."""
    kept = {name: grant for name, grant in _grants(root).items() if grant[1] > now_ms and name != subject}
    if len(kept) < _KEPT_MAX:
        write_file(root.path / "run" / _GRANTS, msgspec.json.encode({**kept, subject: (token, ends_at_ms)}), mode=0o600)


def _grants(root: DataRoot) -> Grants:
    try:
        return msgspec.json.decode((root.path / "run" / _GRANTS).read_bytes(), type=Grants)
    except (OSError, msgspec.DecodeError):
        return {}
