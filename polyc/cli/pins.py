"""The journal's file, read beside its writer, and what the tables remember of the log's length and root."""

from pathlib import Path

from artifacts.newest import Newest
from artifacts.store import DirectoryStore
from journal import opening
from journal.findings import Pin
from journal.reading import SqliteReader
from journal.store import SqliteJournal
from polyc.dataroot import DataRoot
from polyc.errors import UnavailableError


def pins_of(root: DataRoot, *, journal: Path | None = None) -> list[Pin]:
    """What the newest manifest remembers of the log; it lies on the same disk, so it anchors nothing (ruling 11).

    `journal` is the file whose keys the manifest is verified with, when it is not the data root's own.
    """
    if not root.exists or not (journal or root.journal_file).exists():
        return []
    with read_only(root, journal=journal) as reader:
        try:
            body = Newest(DirectoryStore(root.artifacts), keys=reader.keyring, origin=reader.origin).latest().body
        except UnavailableError:
            return []
    source = f"manifest {body.generation}"
    return [Pin(size=body.frontier.size, root=bytes.fromhex(body.frontier.root), source=source, anchored=False)]


def size_of(root: DataRoot) -> int:
    """How many entries the journal has sealed."""
    with read_only(root) as reader:
        return reader.size()


def read_only(root: DataRoot, *, journal: Path | None = None) -> SqliteReader:
    """The journal's file (or a copy of it), read beside whoever writes it."""
    policy = root.policy()
    opening.check_stands(journal or root.journal_file)
    return SqliteJournal.open_read_only(
        journal or root.journal_file,
        origin=policy.origin,
        root_public_key=bytes.fromhex(policy.root_key),
        log_public_key=bytes.fromhex(policy.log_key),
    )
