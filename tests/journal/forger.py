"""Somebody who can write the journal's file, and perhaps holds the log's key: what the attacks are made with."""

import shutil
from pathlib import Path
from typing import Self

import apsw

from journal.database import row, rows
from journal.findings import Fault
from journal.tree import Tree
from journal.verify import verify_file
from polyc import entry, note
from polyc.merkle import Frontier
from tests.journal.log import ORIGIN, Log


def story(log: Log) -> None:
    """Three partitions of a few appends each; the file is closed."""
    with log.open() as journal:
        for i in range(5):
            log.say(journal, "conv-a", f"a{i}", f"a{i}b")
            log.say(journal, "conv-b", f"b{i}")
        log.say(journal, "conv-c", "c0")


def copy_live(log: Log, folder: Path) -> Path:
    """The files as a crash would leave them: what the open journal has written so far."""
    target = folder / "journal" / "journal.sqlite"
    target.parent.mkdir(parents=True)
    for suffix in ("", "-wal"):
        source = log.path.with_name(log.path.name + suffix)
        if source.exists():
            shutil.copyfile(source, target.with_name(target.name + suffix))
    return target


class Forger:
    """Opens the closed file and changes it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.connection = apsw.Connection(str(log.path))

    def run(self, statement: str, *bindings: object) -> None:
        self.connection.execute(statement, bindings)

    def pid(self, partition: str) -> int:
        return row(self.connection, "SELECT pid FROM part WHERE name = ? AND current = 1", (partition,))[0]

    def entry(self, partition: str, position: int) -> tuple:
        query = "SELECT pid, position, idx, header, salt, payload FROM entry WHERE pid = ? AND position = ?"
        return row(self.connection, query, (self.pid(partition), position))

    def set_header(self, partition: str, position: int, header: bytes) -> None:
        where = "UPDATE entry SET header = ? WHERE pid = ? AND position = ?"
        self.run(where, header, self.pid(partition), position)

    def rechain(self, partition: str) -> None:
        """Make prevs, leaf and head fit again after a change (what any careful forger does)."""
        pid = self.pid(partition)
        name, incarnation = row(self.connection, "SELECT name, incarnation FROM part WHERE pid = ?", (pid,))
        leaf, last = entry.genesis(ORIGIN, name, incarnation), 0
        for position, header in rows(
            self.connection, "SELECT position, header FROM entry WHERE pid = ? ORDER BY position", (pid,)
        ):
            fixed = header[:80] + leaf + header[112:]
            self.run("UPDATE entry SET header = ? WHERE pid = ? AND position = ?", fixed, pid, position)
            leaf, last = entry.leaf_hash(fixed), position
        self.run("UPDATE part SET next = ?, leaf = ? WHERE pid = ?", last + 1, leaf, pid)

    def reseal(self, *, log_key: bool) -> None:
        """Rebuild tiles and the only checkpoint; with the log's key the result looks sealed."""
        headers = [header for (header,) in rows(self.connection, "SELECT header FROM entry ORDER BY idx")]
        tree = Tree(Frontier(), [b""] * 8)
        self.run("DELETE FROM tile")
        for tile in tree.extend([entry.leaf_hash(header) for header in headers]):
            self.run("INSERT INTO tile VALUES (?, ?, ?)", *tile)
        frontier = tree.frontier
        text = str(note.Checkpoint(origin=ORIGIN, size=frontier.size, root=frontier.root()))
        signer = self.log.signers["log" if log_key else "edge"]
        verifier = note.Verifier(name=ORIGIN, kind=note.ED25519, public_key=self.log.signers["log"].public_key)
        line = note.sign(text, name=ORIGIN, signer=signer)
        line = note.SignatureLine(name=ORIGIN, key_id=verifier.key_id, signature=line.signature)
        self.run("DELETE FROM checkpoint")
        self.run(
            "INSERT INTO checkpoint VALUES (?, ?, ?)",
            frontier.size,
            str(note.Note(text=text, signatures=(line,))),
            b"".join(frontier.nodes),
        )

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def first_fault(log: Log, *, level: str = "V1", **options: object) -> Fault | None:
    report = verify_file(log.path, policy=log.policy, level=level, processes=1, **options)
    return report.faults[0] if report.faults else None


def place(partition: str, position: int, log: Log) -> str:
    """`partition/incarnation@position` for the current incarnation."""
    connection = apsw.Connection(str(log.path), flags=apsw.SQLITE_OPEN_READONLY)
    incarnation = row(connection, "SELECT incarnation FROM part WHERE name = ? AND current = 1", (partition,))[0]
    connection.close()
    return f"{partition}/{incarnation.hex()}@{position}"
