"""Somebody who can write the journal's file, and perhaps holds the log's key: what the attacks are made with."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import apsw

from journal.body import COLUMNS, Run, Stored, encode_body
from journal.database import row, rows
from journal.findings import Fault
from journal.tree import Tree
from journal.verify import verify_file
from polyc import entry, note
from polyc.appending import SignedEntry
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


class Entry(NamedTuple):
    """An entry as the forger finds it."""

    index: int
    header: bytes
    salt: bytes | None
    payload: bytes | None


class Forger:
    """Opens the closed file and changes it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.connection = apsw.Connection(str(log.path))

    def run(self, statement: str, *bindings: object) -> None:
        self.connection.execute(statement, bindings)

    def pid(self, partition: str) -> int:
        return row(self.connection, "SELECT pid FROM part WHERE name = ? AND current = 1", (partition,))[0]

    def stored(self, partition: str, position: int) -> Stored:
        """The row of the append that holds this position."""
        query = f"SELECT {COLUMNS} FROM append WHERE pid = ? AND position <= ? ORDER BY position DESC LIMIT 1"
        return Stored(*row(self.connection, query, (self.pid(partition), position)))

    def entry(self, partition: str, position: int) -> Entry:
        stored = self.stored(partition, position)
        run, number = stored.open("forger"), position - stored.position
        return Entry(stored.index + number, run.headers[number], run.salt(number), run.payload(number))

    def signed_as(self, partition: str, position: int) -> tuple[bytes, bytes]:
        """The append id and the signature of the append that holds this position."""
        stored = self.stored(partition, position)
        return stored.append_id, stored.signature

    def change(self, partition: str, position: int, **fields: bytes | None) -> None:
        """Give an entry another `header`, `salt` or `payload`; the row around it stays fitting."""
        stored, changed = self.stored(partition, position), self.entry(partition, position)._replace(**fields)
        run = stored.open("forger")
        number = position - stored.position
        run.headers[number] = changed.header
        run.salted[number] = None if changed.payload is None else (changed.salt or b"") + changed.payload
        self.pack(stored.index, run.headers, run.salted)

    def pack(self, index: int, headers: Sequence[bytes], salted: Sequence[bytes | None]) -> None:
        """Write these entries into the row of an append."""
        form, body = encode_body(headers, salted)
        update = "UPDATE append SET form = ?, body = ?, n = ? WHERE idx = ?"
        self.run(update, form, body, len(headers), index)

    def drop(self, partition: str, position: int) -> None:
        """Take an entry out of its append."""
        stored = self.stored(partition, position)
        run, number = stored.open("forger"), position - stored.position
        del run.headers[number], run.salted[number]
        self.pack(stored.index, run.headers, run.salted)

    def insert(self, partition: str, index: int, item: Entry | SignedEntry, signature: bytes) -> None:
        """Add an append of one entry, as its header says."""
        header = entry.decode_header(item.header, place="forger")
        form, body = encode_body([item.header], [item.salt + item.payload])
        self.run(
            "INSERT INTO append VALUES (?, ?, ?, 1, ?, ?, ?, ?)",
            index, self.pid(partition), header.position, header.append_id, signature, form, body,
        )  # fmt: skip
        self.run("UPDATE part SET last_idx = ? WHERE pid = ?", index, self.pid(partition))

    def rechain(self, partition: str) -> None:
        """Make prevs, leaf and head fit again after a change (what any careful forger does)."""
        pid = self.pid(partition)
        name, incarnation = row(self.connection, "SELECT name, incarnation FROM part WHERE pid = ?", (pid,))
        leaf, last = entry.genesis(ORIGIN, name, incarnation), 0
        for stored, run in self.appends("WHERE pid = ? ORDER BY position", pid):
            for number, header in enumerate(run.headers):
                run.headers[number] = header[:80] + leaf + header[112:]
                leaf, last = entry.leaf_hash(run.headers[number]), stored.position + number
            self.pack(stored.index, run.headers, run.salted)
        self.run("UPDATE part SET next = ?, leaf = ? WHERE pid = ?", last + 1, leaf, pid)

    def appends(self, where: str, *bindings: object) -> list[tuple[Stored, Run]]:
        found = [
            Stored(*columns) for columns in rows(self.connection, f"SELECT {COLUMNS} FROM append {where}", bindings)
        ]
        return [(stored, stored.open("forger")) for stored in found]

    def reseal(self, *, log_key: bool) -> None:
        """Rebuild tiles and the only checkpoint; with the log's key the result looks sealed."""
        headers = [header for _stored, run in self.appends("ORDER BY idx") for header in run.headers]
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
