"""Receipts, keys, erasure, archives, backups: what keeps a deployment whole, as a script would use it."""

import json
import shutil
from pathlib import Path

import apsw
import pytest

from journal.reading import SqliteReader
from polyc.dataroot import DataRoot
from tests.cli.runner import ask, polyc, relations_holding

PROMPT = "The harbour page shows every high tide"  # asked for by its beginning: the audit keeps questions


def place_of(root: Path, text: str) -> tuple[str, int, str]:
    [row] = ask(root, f"SELECT partition, position, source_incarnation AS i FROM messages WHERE text LIKE '{text}%'")
    return str(row["partition"]), int(row["position"]), str(row["i"])


def test_a_result_row_can_be_proved_with_the_policy_file_alone(root: Path, tmp_path: Path) -> None:
    partition, position, incarnation = place_of(root, PROMPT[:12])
    receipt, policy = tmp_path / "row.tlog-proof", tmp_path / "policy.json"
    shutil.copy(DataRoot(root).policy_file, policy)
    said = polyc(root, "prove", partition, str(position), "--incarnation", incarnation, "--out", str(receipt))
    assert said.code == 0, said.err
    nowhere = tmp_path / "nowhere"
    proved = polyc(nowhere, "receipt", "verify", str(receipt), "--policy", str(policy)).rows[0]
    assert (proved["partition"], proved["position"], proved["event_type"]) == (partition, position, "message")
    assert proved["source_incarnation"] == incarnation
    assert proved["role"] == "importer"
    assert not nowhere.exists()
    again = polyc(root, "prove", partition, str(position), "--out", str(receipt))
    assert again.code == 1
    assert "already_exists" in again.err


def test_a_changed_receipt_proves_nothing(root: Path, tmp_path: Path) -> None:
    partition, position, _ = place_of(root, PROMPT[:12])
    text = polyc(root, "prove", partition, str(position), "--out", "-").out.decode()
    other = polyc(root, "prove", partition, str(position + 1), "--out", "-").out.decode()
    lines, others = text.splitlines(keepends=True), other.splitlines(keepends=True)
    differing = [number for number, line in enumerate(lines) if number < len(others) and line != others[number]]
    assert differing
    lines[differing[0]] = others[differing[0]]
    forged = tmp_path / "forged.tlog-proof"
    forged.write_text("".join(lines))
    said = polyc(root, "receipt", "verify", str(forged), "--policy", str(DataRoot(root).policy_file))
    assert (said.code, said.out) == (3, b"")
    assert said.err.startswith("polyc: error: data_loss: ")


def test_keys_are_listed_rotated_and_revoked(copy: Path, home: Path) -> None:
    before = {row["role"]: row["key_id"] for row in polyc(copy, "keys", "list", "--format", "json").rows}
    assert set(before) == {"root", "control", "grant", "harness", "edge", "importer", "log", "projector", "query"}
    assert polyc(copy, "keys", "rotate", "importer").code == 0
    assert polyc(copy, "keys", "revoke", before["harness"], "--reason", "lost").code == 0
    keys = polyc(copy, "keys", "list", "--format", "json").rows
    acting = {row["role"]: row["key_id"] for row in keys if row["state"] == "acting"}
    assert acting["importer"] != before["importer"]
    assert "harness" not in acting
    assert ask(copy, "SELECT COUNT(*) AS n FROM turns")[0]["n"] > 0
    assert polyc(copy, "verify", "--level", "V2").code == 0


def test_erased_content_is_gone_and_the_log_still_verifies(copy: Path) -> None:
    partition, position, _ = place_of(copy, PROMPT[:12])
    said = polyc(copy, "erase", partition, str(position), "--prove-gone")
    assert said.code == 0, said.err
    assert relations_holding(copy, PROMPT) == []
    held = [path for path in copy.rglob("*") if path.is_file() and PROMPT.encode() in path.read_bytes()]
    assert held == []
    assert polyc(copy, "verify").code == 0
    said = polyc(copy, "erase", partition, "--prove-gone")
    assert said.code == 0, said.err
    assert ask(copy, f"SELECT COUNT(*) AS n FROM messages WHERE partition = '{partition}'") == [{"n": 0}]
    assert polyc(copy, "verify", "--artifacts").code == 0


def test_an_archive_becomes_the_same_log_elsewhere(root: Path, tmp_path: Path) -> None:
    archive, other = tmp_path / "archive", tmp_path / "other"
    assert polyc(root, "export", str(archive)).code == 0
    assert polyc(other, "import-archive", str(archive)).code == 0
    reports = [json.loads(polyc(each, "verify", "--json", "--level", "V2").out) for each in (root, other)]
    assert reports[1]["faults"] == []
    assert (reports[0]["origin"], reports[0]["root"]) == (reports[1]["origin"], reports[1]["root"])
    again = polyc(other, "import-archive", str(archive))
    assert (again.code, again.out) == (1, b"")


def test_a_backup_comes_back_unless_the_tables_have_seen_more(copy: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    assert polyc(copy, "backup", str(backup)).code == 0
    assert polyc(copy, "restore", str(backup)).code == 0
    assert polyc(copy, "verify").code == 0
    assert polyc(copy, "persona", "create", "later").code == 0
    assert polyc(copy, "project").code == 0
    said = polyc(copy, "restore", str(backup))
    assert said.code == 1
    assert said.err.startswith("polyc: error: ")
    assert any(row["persona"] == "later" for row in polyc(copy, "persona", "list", "--format", "json").rows)


def notices(root: Path) -> list[tuple[object, object]]:
    """What the journal says about itself, as (kind, detail)."""
    assert polyc(root, "project").code == 0
    return [(row["kind"], row["detail"]) for row in ask(root, "SELECT kind, detail FROM journal_notices ORDER BY 1, 2")]


def test_a_torn_tail_that_opening_cut_is_an_event_of_its_own_told_once(copy: Path) -> None:
    wal = DataRoot(copy).journal_file.with_name("journal.sqlite-wal")
    wal.write_bytes(b"half a commit" * 400)
    for _ in range(2):
        assert polyc(copy, "persona", "list").code == 0
    assert notices(copy) == [("recovery", "5200 bytes of a commit that never ended were cut off the write-ahead log")]
    assert polyc(copy, "verify", "--level", "V2").code == 0


def test_a_restored_log_says_where_it_was_taken_up_and_what_nobody_knows(copy: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    assert polyc(copy, "backup", str(backup)).code == 0
    journal = DataRoot(copy).journal_file
    journal.write_bytes(journal.read_bytes()[:-4096])
    size = json.loads((backup / "backup.json").read_bytes())["size"]
    said = polyc(copy, "restore", str(backup))
    assert said.code == 0, said.err
    assert notices(copy) == [
        (
            "gap",
            f"the journal before the restored backup did not verify: what it held beyond index {size} is not known",
        ),
        ("recovery", f"a backup of {size} entries was restored"),
    ]


def test_a_journal_behind_its_tables_is_told(copy: Path, tmp_path: Path) -> None:
    older = tmp_path / "older.sqlite"
    shutil.copy(DataRoot(copy).journal_file, older)
    assert polyc(copy, "persona", "create", "later").code == 0
    assert polyc(copy, "project").code == 0
    shutil.copy(older, DataRoot(copy).journal_file)
    for leftover in DataRoot(copy).journal_file.parent.glob("journal.sqlite-*"):
        leftover.unlink()
    said = polyc(copy, "verify")
    assert said.code == 3, said.out


@pytest.mark.parametrize("left", [None, b"", b"x", b"tables"])
def test_a_deployment_whose_journal_is_gone_does_not_begin_anew(copy: Path, tmp_path: Path, left: bytes | None) -> None:
    """SQLite would make an empty one, and every command would serve it."""
    backup, journal = tmp_path / "backup", DataRoot(copy).journal_file
    assert polyc(copy, "backup", str(backup)).code == 0
    if left == b"tables":
        connection = apsw.Connection(str(journal))
        for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            connection.execute("DELETE FROM " + table if table != "meta" else "SELECT 1")
        connection.close()
    elif left is None:
        journal.unlink()
    else:
        journal.write_bytes(left)
    before = journal.read_bytes() if journal.exists() else None
    commands = [
        ("verify",),
        ("status",),
        ("persona", "list"),
        ("query", "--admin", "SELECT 1"),
        ("spending", "--persona", "x"),
    ]
    commands += [("backup", str(tmp_path / "another")), ("keys", "list"), ("export", str(tmp_path / "export"))]
    commands += [("fsck",)] if left != b"tables" else []  # to which a file without entries is one in order
    for command in commands[: None if left != b"tables" else 6]:
        said = polyc(copy, *command)
        assert said.code == 3, (command, said.err)
    if left != b"tables":
        assert (journal.read_bytes() if journal.exists() else None) == before, "nothing was made in its place"
    assert polyc(copy, "restore", str(backup)).code == 0
    assert polyc(copy, "verify").code == 0


def test_a_witness_is_asked_and_served_with_arguments_that_fit(root: Path, tmp_path: Path) -> None:
    witness = "witness.test/w+86045f86+BLV8E+TSYJ5AgmCjsepQSxRhFvZYsE+f9UNTNpOOeITJ"
    for url in ("nonsense", "ftp://x", "http://[::1"):
        said = polyc(root, "witness", "ask", url, witness)
        assert (said.code, "not the address" in said.err) == (1, True), said.err
    log = polyc(root, "witness", "vkey").out.decode().strip()
    for name, port in (("two words", "8500"), ("a+b", "8500"), ("w", "99999"), ("w", "0")):
        said = polyc(root, "witness", "serve", str(tmp_path / "w"), name, "--log", log, "--port", port)
        assert said.code == 1, said.err
    assert not (tmp_path / "w").exists()


def test_fsck_finds_nothing_in_a_sound_file(root: Path) -> None:
    assert polyc(root, "fsck").code == 0


def test_the_tables_are_compared_with_the_journal(copy: Path) -> None:
    assert polyc(copy, "verify", "--artifacts").code == 0
    report = json.loads(polyc(copy, "verify", "--artifacts", "--json").out)
    assert report["artifacts"]["difference"] is None


def test_generations_are_listed_shown_and_compared(copy: Path) -> None:
    assert polyc(copy, "persona", "create", "later").code == 0
    assert polyc(copy, "project").code == 0
    numbers = sorted(row["generation"] for row in polyc(copy, "generations", "list", "--format", "json").rows)
    first, last = str(numbers[0]), str(numbers[-1])
    assert len(numbers) >= 2
    assert polyc(copy, "generations", "show", last).rows[0]["generation"] == numbers[-1]
    assert polyc(copy, "generations", "diff", first, last).rows[0]["changed"][0]["partition"] == "personas"
    assert polyc(copy, "gc", "--dry-run").code == 0


@pytest.mark.parametrize(
    "arguments", [("prove", "conv-imp-x", "1"), ("erase", "conv-imp-x"), ("generations", "show", "99")]
)
def test_what_is_not_there_is_refused(root: Path, arguments: tuple[str, ...]) -> None:
    said = polyc(root, *arguments)
    assert (said.code, said.out) == (1, b""), said.err
    assert said.err.startswith("polyc: error: not_found: ")


def test_a_witness_is_given_the_logs_keys(copy: Path) -> None:
    origin = DataRoot(copy).policy().origin
    first = polyc(copy, "witness", "vkey").out.decode().splitlines()
    assert [vkey.partition("+")[0] for vkey in first] == [origin]
    assert polyc(copy, "keys", "rotate", "log").code == 0
    overlapping = polyc(copy, "witness", "vkey").out.decode().splitlines()
    assert overlapping[0] == first[0]
    assert len(set(overlapping)) == 2


def test_a_key_that_was_made_elsewhere_gets_a_role(copy: Path) -> None:
    made = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
    assert polyc(copy, "keys", "add", "harness", made, "--name", "laptop", "--to-index", "99999").code == 0
    [key] = [row for row in polyc(copy, "keys", "list", "--format", "json").rows if row["name"] == "laptop"]
    assert (key["role"], key["to_index"], key["state"]) == ("harness", 99_999, "ending")
    assert polyc(copy, "keys", "add", "edge", made).code == 1  # one key, one role
    for wrong in ("zz", made[:-2]):
        assert polyc(copy, "keys", "add", "harness", wrong).code == 1
    assert polyc(copy, "verify", "--signatures").code == 0


def test_a_copy_without_keys_proves_and_lists_what_it_holds(root: Path, tmp_path: Path) -> None:
    archive, other = tmp_path / "archive", tmp_path / "other"
    assert polyc(root, "export", str(archive)).code == 0
    assert polyc(other, "import-archive", str(archive)).code == 0
    partition, position, _ = place_of(root, PROMPT[:12])
    receipt = tmp_path / "row.tlog-proof"
    assert polyc(other, "prove", partition, str(position), "--out", str(receipt)).code == 0
    policy = str(DataRoot(root).policy_file)
    proved = polyc(other, "receipt", "verify", str(receipt), "--policy", policy).rows[0]
    assert (proved["partition"], proved["position"]) == (partition, position)
    assert len(polyc(other, "keys", "list", "--format", "json").rows) == 9


def test_a_receipt_is_judged_by_a_trust_policy(root: Path, tmp_path: Path) -> None:
    partition, position, _ = place_of(root, PROMPT[:12])
    receipt, trust = tmp_path / "row.tlog-proof", tmp_path / "trust"
    assert polyc(root, "prove", partition, str(position), "--out", str(receipt)).code == 0
    asked = ("receipt", "verify", str(receipt), "--policy", str(DataRoot(root).policy_file), "--trust", str(trust))
    log = polyc(root, "witness", "vkey").out.decode()
    witness = "witness.test/w+86045f86+BLV8E+TSYJ5AgmCjsepQSxRhFvZYsE+f9UNTNpOOeITJ"
    trust.write_text(f"log {log}quorum none\n")
    assert polyc(root, *asked).code == 0
    trust.write_text(f"log {log}witness w {witness}\nquorum w\n")
    said = polyc(root, *asked)
    assert (said.code, "quorum" in said.err) == (3, True)
    trust.write_text("quorum w\n")
    said = polyc(root, *asked)
    assert (said.code, f"{trust}:1" in said.err) == (1, True)


def test_the_logs_own_key_is_no_witness(root: Path) -> None:
    log = polyc(root, "witness", "vkey").out.decode().strip()
    for wrong in (log, "nonsense", "w+00000000+AAAA"):
        said = polyc(root, "verify", "--witness", wrong)
        assert (said.code, said.out) == (1, b"")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("{", '{"origin": "polychrome.local/else",', 1),
        lambda text: text.replace("polychrome.local/", "polychrome local/"),
        lambda text: text.replace('"encryption"', '"surprise"'),
        lambda text: text.replace('"none"', '"rot13"'),
        lambda text: text.replace('"log_key": "', '"log_key": "zz'),
        lambda text: text[:-3],
        lambda _text: "",
        lambda _text: "[]",
        lambda _text: "\udcff",
    ],
)
def test_a_policy_file_that_two_readers_could_take_for_two_is_none(root: Path, tmp_path: Path, change) -> None:
    text = DataRoot(root).policy_file.read_text()
    policy = tmp_path / "policy.json"
    policy.write_text(change(text), errors="surrogateescape")
    assert policy.read_bytes() != text.encode()
    said = polyc(root, "verify", "--policy", str(policy))
    assert (said.code, said.out) == (3, b"")
    assert said.err == f"polyc: error: data_loss: {policy}: not a policy file\n"


def test_prices_and_budgets_are_recorded(copy: Path) -> None:
    price = (
        "price",
        "set",
        "gpt-5.1-codex",
        "--from",
        "2026-11-01",
        "--currency",
        "USD",
        "--input",
        "1.25",
        "--output",
        "10",
    )
    assert polyc(copy, *price).code == 0
    budget = ("budget", "set", "--persona", "maren", "--asset", "USDC", "--network", "base", "--amount", "5000000")
    assert polyc(copy, *budget).code == 0
    assert polyc(copy, "project").code == 0
    assert ask(copy, "SELECT model FROM prices") == [{"model": "gpt-5.1-codex"}]
    assert ask(copy, "SELECT subject FROM budgets") == [{"subject": "maren"}]


def stored_payloads(root: Path) -> bytes:
    """Every payload as the journal's file keeps it, unpacked."""
    policy = DataRoot(root).policy()
    key = bytes.fromhex(policy.root_key)
    with SqliteReader(DataRoot(root).journal_file, origin=policy.origin, root_public_key=key) as reader:
        return b"\n".join(raw.payload or b"" for raw in reader.read_all_raw(from_index=0))


def test_an_encrypting_deployment_answers_the_same_and_keeps_no_plain_text(
    root: Path, home: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    assert polyc(secret, "init", "--encryption", "per-conversation").code == 0
    assert polyc(secret, "import", "--final", "--persona", "maren", str(home)).code == 0
    sql = "SELECT turn_id, text FROM messages ORDER BY partition, position"
    assert ask(secret, sql) == ask(root, sql)
    assert PROMPT.encode() in stored_payloads(root)
    assert PROMPT.encode() not in stored_payloads(secret)
    assert PROMPT.encode() not in DataRoot(secret).journal_file.read_bytes()
    assert polyc(secret, "verify", "--level", "V2").code == 0
    assert polyc(secret, "init").code == 1
