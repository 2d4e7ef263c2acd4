"""What a journal shows before it is trusted to go on: its WAL, its latest checkpoint, its tail, its heads.

A torn tail (bytes past the last commit) is SQLite's to cut: it was never acknowledged. Damage at or below a
checkpoint is corruption: stop, name it, remove nothing (ruling 10).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

from journal.body import COLUMNS, Stored
from journal.database import row, rows
from journal.reading import SqliteReader
from journal.records import Chain
from journal.tree import Tree, load_tree
from journal.wal import WalReport, inspect_wal
from polyc import note
from polyc.errors import CorruptError
from polyc.keyring import Key, KeyRing
from polyc.limits import TAIL_VERIFIED_ENTRIES_MAX
from polyc.merkle import EMPTY_ROOT, Frontier

FILE_SIZE_BYTES_MIN: Final = 512  # SQLite's smallest page


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """A verified end of the log: the tree and the checkpoint note ("" for an empty log)."""

    tree: Tree
    note: str


def check_stands(path: Path) -> None:
    """CorruptError when the file of a deployment that was made is gone or empty.

    SQLite would make a new one, and a log that begins anew under an old policy is a fork.
    """
    if not path.exists() or path.stat().st_size < FILE_SIZE_BYTES_MIN:
        raise _gone(path)


def check_begun(path: Path, size: int) -> None:
    """CorruptError for a log without an entry: each begins with its keys, before its policy file is written."""
    if size == 0:
        raise _gone(path)


def _gone(path: Path) -> CorruptError:
    return CorruptError(
        "the journal is gone, its deployment is here", place=str(path), kind="rollback", hint="polyc restore a backup"
    )


def check_wal(path: Path) -> WalReport:
    """What the write-ahead log holds.

    CorruptError when SQLite would silently drop committed transactions behind a damaged frame.
    """
    report = inspect_wal(path.with_name(path.name + "-wal"))
    if report.interior_damage is not None:
        what = f"frame {report.interior_damage}" if report.interior_damage else "the header"
        raise CorruptError(
            f"{what} of the write-ahead log is damaged, and committed transactions follow it",
            place=f"{path.name}-wal@{report.interior_damage}",
            kind="wal",
            hint="keep the files; restore a backup or export what verifies",
        )
    return report


def log_keys(named: Sequence[Key], *, size: int, first_log_key: bytes) -> tuple[bytes, ...]:
    """Those of the log's keys that may sign a checkpoint of this size: valid at its last index.

    The policy's log key stands in where the log names none (its keys cannot be read, or it is empty).
    """
    index = max(size - 1, 0)
    return tuple([key.public_key for key in named if key.acts_at(index)]) if named else (first_log_key,)


def log_verifiers(origin: str, keys: KeyRing, *, size: int, first_log_key: bytes) -> list[note.Verifier]:
    """The same as verifiers of signed notes."""
    named = [key for key in keys.all() if key.role == "log"]
    publics = log_keys(named, size=size, first_log_key=first_log_key)
    return [note.Verifier(name=origin, kind=note.ED25519, public_key=public) for public in publics]


def check_latest(reader: SqliteReader, *, log_public_key: bytes) -> note.Checkpoint | None:
    """The latest checkpoint when the log's keys signed it; None for an empty log."""
    if reader.size() == 0:
        return None
    verifiers = log_verifiers(reader.origin, reader.keyring(), size=reader.size(), first_log_key=log_public_key)
    checkpoint, _signed = note.open_checkpoint(
        reader.checkpoint(), origin=reader.origin, verifiers=verifiers, place=f"checkpoint of {reader.path.name}"
    )
    return checkpoint


def verify_tail(connection: apsw.Connection, *, origin: str, keys: KeyRing, log_key: bytes) -> Tail:
    """Verify what every start verifies.

    1. The latest checkpoint is signed by the log and covers every entry. 2. Tiles and entries give its root.
    3. The last entries are whole: digests, chains. 4. The heads of their partitions are those entries.
    """
    latest = row(connection, "SELECT size, note, nodes FROM checkpoint ORDER BY size DESC LIMIT 1")
    last = row(connection, "SELECT idx + n FROM append ORDER BY idx DESC LIMIT 1")
    entries = 0 if last is None else last[0]
    if latest is None:
        if entries:
            raise CorruptError("entries without a checkpoint", place="index 0", kind="unsealed")
        return Tail(tree=Tree(Frontier(), [b""] * 8), note="")
    # 1. the checkpoint
    size, text, nodes = latest
    place = f"checkpoint {size}"
    verifiers = log_verifiers(origin, keys, size=size, first_log_key=log_key)
    checkpoint, _signed = note.open_checkpoint(text, origin=origin, verifiers=verifiers, place=place)
    if checkpoint.size != size:
        raise CorruptError(f"its note says {checkpoint.size}", place=place, kind="checkpoint")
    if entries != size:
        detail = "the journal is behind its own checkpoint" if entries < size else "entries past the checkpoint"
        raise CorruptError(f"{detail}: {entries} entries", place=place, kind="rollback")
    # 2. the tree
    tree = load_tree(connection, size=size)
    root = tree.frontier.root() if size else EMPTY_ROOT
    if root != checkpoint.root or b"".join(tree.frontier.nodes) != nodes:
        raise CorruptError("tiles and entries do not give the checkpoint's root", place=place, kind="root")
    # 3. and 4. the last entries
    _verify_last_entries(connection, origin=origin, size=size)
    return Tail(tree=tree, note=text)


def _verify_last_entries(connection: apsw.Connection, *, origin: str, size: int) -> None:
    first = max(0, size - TAIL_VERIFIED_ENTRIES_MAX)
    chains: dict[int, Chain] = {}
    heads: dict[int, tuple[int, bytes]] = {}
    at: int | None = None
    covering = "SELECT idx FROM append WHERE idx >= coalesce((SELECT max(idx) FROM append WHERE idx <= ?1), ?1)"
    query = f"SELECT pid, name, incarnation, next - 1, leaf, {COLUMNS} FROM append JOIN part USING (pid) WHERE idx = ?"
    for (index,) in rows(connection, f"{covering} ORDER BY idx", (first,)):
        found = row(connection, query, (index,))
        if found is None or at not in (None, index):
            break
        pid, name, incarnation, head_position, head_leaf, *columns = found
        stored = Stored(*columns)
        if pid not in chains:
            chains[pid] = _chain_before(connection, origin, pid, name, incarnation, position=stored.position)
            heads[pid] = (head_position, head_leaf)
        chains[pid].take(stored)
        at = stored.index + stored.count
    if size and at != size:
        raise CorruptError("entries are missing", place=f"index {first} to {size}", kind="gap")
    for pid, chain in chains.items():
        if (chain.position, chain.leaf) != heads[pid]:
            raise CorruptError("the head is not the last entry", place=chain.place(heads[pid][0]), kind="head")


def _chain_before(
    connection: apsw.Connection, origin: str, pid: int, name: str, incarnation: bytes, *, position: int
) -> Chain:
    """The chain as the append before this position leaves it; that one is verified too, from its own word on."""
    chain = Chain.at_genesis(origin, name, incarnation)
    if position == 1:
        return chain
    query = f"SELECT {COLUMNS} FROM append WHERE pid = ? AND position < ? ORDER BY position DESC LIMIT 1"
    before = row(connection, query, (pid, position))
    if before is None:
        raise CorruptError("entry is missing", place=chain.place(position - 1), kind="gap")
    stored = Stored(*before)
    chain = Chain.before(name, incarnation, stored.open(chain.where))
    chain.take(stored)
    return chain
