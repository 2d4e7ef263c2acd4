"""Forgery: what stands beside the entries, and decides what readers are shown: rows, fences, tiles, nodes, schema."""

import shutil
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from journal.erasure import erase
from journal.fsck import fsck
from journal.reading import SqliteReader
from journal.verify import verify_file
from polyc import entry
from polyc.dataroot import DataRoot
from polyc.errors import CorruptError
from tests.journal.forger import Forger, first_fault, place, story
from tests.journal.log import FENCE, ORIGIN, TURN_COMPLETE, Log


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A log with a full tile, a closed fence, and a partition that began anew; never changed."""
    log = Log(tmp_path_factory.mktemp("told"))
    story(log)
    with log.open() as journal:
        log.say(journal, "conv-a", *[f"more {i}" for i in range(250)])
        log.say(journal, "conv-b", "begun anew", new_incarnation=True)
        journal.append(log.sign("conv-f", b"{}", role="control", event_type=TURN_COMPLETE, closes=True, fence=FENCE))
        log.say(journal, "conv-c", "c1")
    return log


@pytest.fixture
def log(told: Log, tmp_path: Path) -> Log:
    log = Log(tmp_path)
    log.path.parent.mkdir(parents=True)
    shutil.copyfile(told.path, log.path)
    return log


def start(partition: str):
    return lambda log: place(partition, 1, log)


@pytest.mark.parametrize(
    ("statements", "kind", "where"),
    [
        ("UPDATE part SET first_idx = 0 WHERE name = 'conv-c'", "head", start("conv-c")),
        ("UPDATE part SET last_idx = 0 WHERE name = 'conv-c'", "head", start("conv-c")),
        ("UPDATE part SET last_idx = 1 << 60, next = 9 WHERE name = 'conv-c'", "gap", lambda log: place("conv-c", 3, log)),
        ("UPDATE part SET opener = zeroblob(8) WHERE name = 'conv-c'", "head", start("conv-c")),
        ("UPDATE part SET current = 0 WHERE name = 'conv-a'", "head", lambda _: "conv-a/"),
        ("UPDATE part SET name = 'Ü' || char(10) WHERE name = 'conv-c'", "head", lambda _: r"'\xdc\n'/"),
        ("UPDATE part SET name = printf('%.300c', 'x') WHERE name = 'conv-c'", "head", lambda _: "'xxx"),
        ("UPDATE part SET name = CAST(x'636f6e762d' || x'eda080' AS TEXT) WHERE name = 'conv-c'", "database", lambda _: ""),
        ("INSERT INTO fence VALUES (2, zeroblob(16))", "fence", start("conv-a")),
        ("DELETE FROM fence", "fence", start("conv-f")),
        ("INSERT INTO tile VALUES (0, 99, zeroblob(8192))", "tile", lambda _: "tile 0/99"),
        ("INSERT INTO tile VALUES (-1, -2, zeroblob(8192))", "tile", lambda _: "tile -1/-2"),
        ("UPDATE tile SET hashes = zeroblob(8193)", "tile", lambda _: "tile 0/0"),
        ("UPDATE checkpoint SET nodes = x'' WHERE size = (SELECT max(size) FROM checkpoint)", "checkpoint",
         lambda _: "checkpoint 277"),
        ("INSERT INTO checkpoint SELECT 1 << 62, note, nodes FROM checkpoint LIMIT 1", "rollback",
         lambda _: f"checkpoint {1 << 62}"),
        ("INSERT INTO checkpoint SELECT -5, note, nodes FROM checkpoint LIMIT 1", "checkpoint",
         lambda _: "checkpoint -5"),
        ("INSERT INTO cosignature VALUES (300, '— w AAAAAAAA')", "rollback", lambda _: "checkpoint 300"),
        ("INSERT INTO cosignature VALUES (9, '— w AAAAAAAA')", "checkpoint", lambda _: "checkpoint 9"),
        ("INSERT INTO cosignature VALUES (8, 'no line')", "note", lambda _: "checkpoint 8"),
        ("INSERT INTO meta VALUES ('more', 'x')", "schema", lambda log: str(log.path)),
        ("DELETE FROM meta WHERE key = 'origin'", "origin", lambda log: str(log.path)),
        ("CREATE TABLE aside (x)", "schema", lambda log: str(log.path)),
        ("CREATE TRIGGER t AFTER INSERT ON checkpoint BEGIN DELETE FROM append WHERE idx = 8; END", "schema",
         lambda log: str(log.path)),
        ("DROP INDEX append_place", "schema", lambda log: str(log.path)),
    ],
)  # fmt: skip
def test_a_lie_beside_the_entries_is_named(log: Log, statements: str, kind: str, where):
    assert first_fault(log) is None
    expected = where(log)
    with Forger(log) as forger:
        forger.run(statements)
    fault = first_fault(log)
    assert fault is not None
    assert fault.kind == kind
    assert fault.place.startswith(expected)


def test_an_older_incarnation_made_the_current_one_again_is_named(log: Log):
    with Forger(log) as forger:
        forger.run("UPDATE part SET current = 0 WHERE name = 'conv-b'")
        forger.run("UPDATE part SET current = 1 WHERE name = 'conv-b' AND next > 2")
    with log.open() as journal:  # the sibling: whoever reads is shown the old rows
        assert len(list(journal.read("conv-b"))) == 5
    faults = verify_file(log.path, policy=log.policy).faults
    assert {fault.kind for fault in faults} == {"head"}
    assert {fault.place.partition("/")[0] for fault in faults} == {"conv-b"}


def test_a_partition_cut_off_with_its_row_is_placed_at_its_index(log: Log):
    with Forger(log) as forger:
        index = forger.stored("conv-f", 1).index
        forger.run("DELETE FROM append WHERE idx = ?", index)
        forger.run("DELETE FROM part WHERE name = 'conv-f'")
        forger.run("DELETE FROM fence")
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("gap", f"index {index}")


def test_an_entry_cut_off_below_a_full_tile_with_a_fitting_head_is_placed_at_its_index(log: Log):
    with Forger(log) as forger:  # the tile holds its leaf still, the row says where the partition ends: a hole is left
        pid = forger.connection.execute("SELECT pid FROM part WHERE name = 'conv-b' AND current = 0").get
        (before, run), (last, _run) = forger.appends("WHERE pid = ? ORDER BY position DESC LIMIT 2", pid)[::-1]
        forger.run("DELETE FROM append WHERE idx = ?", last.index)
        update = "UPDATE part SET next = ?, leaf = ?, last_idx = ? WHERE pid = ?"
        forger.run(update, last.position, entry.leaf_hash(run.headers[-1]), before.index, pid)
    assert last.index < 256
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("gap", f"index {last.index}")


def test_appends_of_a_partition_whose_row_is_gone_are_placed_where_they_say_they_stand(log: Log):
    expected = place("conv-f", 1, log)
    with Forger(log) as forger:
        forger.run("DELETE FROM part WHERE name = 'conv-f'")
    assert expected in {fault.place for fault in verify_file(log.path, policy=log.policy).faults}


def test_a_payload_that_is_gone_is_only_excused_by_an_order_that_came_after_it(log: Log):
    with log.open() as journal:
        head = journal.partition_head("conv-c")
        erase(log.author(journal, "control"), partition="conv-c", incarnation=head.incarnation)
        log.say(journal, "conv-c", "said after the erasure")
    assert first_fault(log) is None
    with Forger(log) as forger:
        forger.change("conv-c", 3, payload=None)
    fault = first_fault(log)
    assert (fault.kind, fault.place) == ("erasure", place("conv-c", 3, log))


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("append", "sig"), ("append", "body"), ("append", "append_id"), ("append", "form"), ("append", "n"),
        ("part", "leaf"), ("part", "opener"), ("part", "next"), ("checkpoint", "note"), ("checkpoint", "nodes"),
        ("tile", "hashes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["NULL", "'text'", "2.5"])
def test_a_value_of_another_type_is_a_fault_and_not_a_crash(log: Log, table: str, column: str, value: str):
    """As an edited page may hold it: SQLite looks at a STRICT table's types when it writes."""
    connection = apsw.Connection(str(log.path))
    honest = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get
    connection.close()
    lax = honest.replace(" STRICT", "").replace(" NOT NULL", "")
    for schema in (lax, honest):
        connection = apsw.Connection(str(log.path))
        if schema == honest:
            connection.execute(f"UPDATE {table} SET {column} = {value} WHERE rowid = (SELECT max(rowid) FROM {table})")
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (schema, table))
        connection.close()
    for level in ("V1", "V2"):
        faults = verify_file(log.path, policy=log.policy, level=level, processes=1).faults
        assert faults
        assert faults[0].place
    if table == "append":
        assert faults[0].place.startswith("conv-c/")
    with SqliteReader(log.path, origin=ORIGIN, root_public_key=log.signers["root"].public_key) as reader:
        for partition in ("conv-a", "conv-c"):
            with suppress(CorruptError):
                list(reader.read(partition))


def test_an_index_that_lies_is_named_by_sqlite_itself(log: Log):
    connection = apsw.Connection(str(log.path))
    page, size = connection.execute(
        "SELECT (SELECT rootpage FROM sqlite_schema WHERE name = 'append_ids'), (SELECT page_size FROM pragma_page_size)"
    ).get
    connection.close()
    data = bytearray(log.path.read_bytes())
    at = data.rindex(b"\x70", (page - 1) * size, page * size)  # within an append id of the index, UUIDv7's version
    data[at - 6] ^= 1
    log.path.write_bytes(bytes(data))
    faults = verify_file(log.path, policy=log.policy).faults
    assert [(fault.kind, fault.place) for fault in faults[:1]] == [("database", "journal.sqlite")]


def test_fsck_finds_each_of_them_and_repairs_what_can_be_derived(told: Log, tmp_path: Path):
    lies = [
        "UPDATE part SET first_idx = 0, last_idx = 0, opener = zeroblob(8) WHERE name = 'conv-c'",
        "UPDATE part SET current = 0 WHERE name = 'conv-b'",
        "UPDATE part SET current = 1 WHERE name = 'conv-b' AND next > 2",
        "INSERT INTO fence VALUES (2, zeroblob(16))",
        "UPDATE checkpoint SET nodes = x'' WHERE size = (SELECT max(size) FROM checkpoint)",
    ]
    root = DataRoot(tmp_path / "root")
    root.make()
    root.policy_file.write_text(
        f'{{"origin":"{ORIGIN}","root_key":"{told.policy.root_key}","log_key":"{told.policy.log_key}"}}'
    )
    shutil.copyfile(told.path, root.journal_file)
    log = Log(tmp_path)
    log.path = root.journal_file
    assert fsck(root).findings == ()
    with Forger(log) as forger:
        for lie in lies:
            forger.run(lie)
    assert len(fsck(root).findings) == 5
    assert fsck(root, repair=True).repaired
    assert fsck(root).findings == ()
    assert first_fault(log, level="V2") is None
