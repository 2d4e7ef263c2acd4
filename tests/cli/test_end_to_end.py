"""From files that agents wrote to rows under a grant, through every plane, as a script would see it."""

import io
import json
import shutil
from collections import Counter
from pathlib import Path

import apsw
import pyarrow as pa
import pytest

from polyc.cli.sample import write_sample
from polyc.cli.sample.stories import STORIES
from polyc.dataroot import DataRoot
from tests.cli.runner import ask, polyc, relations_holding

TURNS = [turn for story in STORIES for turn in story.turns]
COMMITTED = [turn for turn in TURNS if turn.end != "crashed"]


def size_of(root: Path) -> int:
    return int(json.loads(polyc(root, "status", "--json").out)["head"])


def test_every_committed_turn_is_there_with_its_status(root: Path) -> None:
    rows = ask(root, "SELECT status, COUNT(*) AS n FROM turns GROUP BY status")
    assert {row["status"]: row["n"] for row in rows} == Counter(turn.end for turn in COMMITTED)


def test_prompts_calls_and_results_are_there_once(root: Path) -> None:
    prompts = ask(root, "SELECT text FROM messages WHERE role = 'user' AND material_origin = 'human_authored'")
    assert sorted(row["text"] for row in prompts) == sorted(turn.prompt for turn in COMMITTED)
    calls = ask(root, "SELECT block_type, COUNT(*) AS n FROM tool_calls GROUP BY block_type")
    count = sum(len(turn.calls) for turn in COMMITTED)
    assert {row["block_type"]: row["n"] for row in calls} == {"call": count, "result": count}
    errors = ask(root, "SELECT COUNT(*) AS n FROM tool_calls WHERE block_type = 'result' AND is_error")
    assert errors == [{"n": sum(call.failed for turn in COMMITTED for call in turn.calls)}]


def test_an_interrupted_turn_is_committed_as_cancelled(root: Path) -> None:
    sql = "SELECT t.status FROM messages m JOIN turns t USING (partition, turn_id) WHERE m.text LIKE 'Rewrite all of the fares%'"
    assert ask(root, sql) == [{"status": "cancelled"}]


def test_an_unfinished_turn_is_in_no_table_of_any_realm(root: Path) -> None:
    assert relations_holding(root, "Roll quay-2 forward") == []


def test_a_finished_turn_is_found_by_the_same_search(root: Path) -> None:
    assert "messages" in relations_holding(root, "Which machines still run")


def test_who_imported_participates_and_others_do_not(root: Path) -> None:
    sql = "SELECT COUNT(DISTINCT partition) AS n FROM turns"
    assert ask(root, sql, "--persona", "maren") == [{"n": len(STORIES)}]
    assert polyc(root, "persona", "create", "stranger").code == 0
    assert ask(root, sql, "--persona", "stranger") == [{"n": 0}]


def test_a_name_outside_the_realm_is_refused_like_one_that_does_not_exist(root: Path) -> None:
    hidden = polyc(root, "query", "--persona", "maren", "SELECT * FROM signer_keys")
    absent = polyc(root, "query", "--persona", "maren", "SELECT * FROM signer_kegs")
    assert (hidden.code, hidden.out) == (absent.code, absent.out) == (1, b"")
    assert hidden.err.startswith("polyc: error: ")
    assert hidden.err.replace("signer_keys", "signer_kegs") == absent.err
    assert ask(root, "SELECT COUNT(*) AS n FROM signer_keys WHERE role = 'log'") == [{"n": 1}]


@pytest.mark.parametrize("sql", ["DELETE FROM turns", "SELECT 1; SELECT 2", "COPY turns TO '/tmp/x'", "SELEC 1", ""])
def test_what_is_no_query_is_refused_with_a_code(root: Path, sql: str) -> None:
    said = polyc(root, "query", "--admin", sql)
    assert (said.code, said.out) == (1, b"")
    assert said.err.startswith("polyc: error: invalid_argument: ")


def test_each_question_is_on_record_with_its_outcome(copy: Path) -> None:
    assert polyc(copy, "query", "--persona", "maren", "SELECT 41 + 1 AS answer").code == 0
    assert polyc(copy, "query", "--persona", "maren", "SELECT * FROM nowhere_at_all").code == 1
    assert polyc(copy, "project").code == 0
    sql = """
        SELECT i.subject, o.status FROM query_audit_intents i JOIN query_audit_outcomes o USING (query_id)
        WHERE i.statement IN ('SELECT 41 + 1 AS answer', 'SELECT * FROM nowhere_at_all') ORDER BY o.status
    """
    assert ask(copy, sql) == [{"subject": "maren", "status": "ok"}, {"subject": "maren", "status": "refused"}]


def test_a_truncated_answer_says_so_on_stderr(root: Path) -> None:
    short = polyc(root, "query", "--admin", "--limit", "2", "SELECT turn_id FROM turns")
    assert len(short.rows) == 2
    assert "truncated after 2 rows" in short.err
    exact = polyc(root, "query", "--admin", "--limit", str(len(COMMITTED)), "SELECT turn_id FROM turns")
    assert (len(exact.rows), exact.err) == (len(COMMITTED), "")


def test_integers_beyond_two_to_the_53_and_decimals_are_text(root: Path) -> None:
    sql = "SELECT 9007199254740993 AS big, 9007199254740992 AS fits, CAST('1.50' AS DECIMAL(9,2)) AS price, NULL AS nothing"
    assert ask(root, sql) == [{"big": "9007199254740993", "fits": 9007199254740992, "price": "1.50", "nothing": None}]


def test_every_format_gives_the_same_rows(root: Path) -> None:
    sql = "SELECT status, COUNT(*) AS n FROM turns GROUP BY status ORDER BY status"
    rows = ask(root, sql)
    csv = polyc(root, "query", "--admin", "--format", "csv", sql).out.decode()
    assert csv.splitlines() == ["status,n", *(f"{row['status']},{row['n']}" for row in rows)]
    arrow = polyc(root, "query", "--admin", "--format", "arrow", sql).out
    assert pa.ipc.open_stream(io.BytesIO(arrow)).read_all().to_pylist() == rows
    table = polyc(root, "query", "--admin", "--format", "table", sql).out.decode()
    assert [line.split() for line in table.splitlines()[2:]] == [[row["status"], str(row["n"])] for row in rows]


def test_a_second_import_of_the_same_files_appends_nothing(copy: Path, home: Path) -> None:
    before = size_of(copy)
    assert polyc(copy, "import", "--final", "--persona", "maren", str(home)).code == 0
    assert size_of(copy) == before


def test_a_second_import_appends_nothing_even_without_its_cursors(copy: Path, home: Path) -> None:
    shutil.rmtree(DataRoot(copy).sources)
    before = size_of(copy)
    assert polyc(copy, "import", "--final", "--persona", "maren", str(home)).code == 0
    assert size_of(copy) == before


def test_an_unfinished_turn_commits_when_its_end_appears(copy: Path, tmp_path: Path) -> None:
    write_sample(tmp_path / "grown")
    crashed = next(path for path in tmp_path.rglob("*.jsonl") if b"Roll quay-2" in path.read_bytes())
    last = json.loads(crashed.read_text().splitlines()[-1])
    call = last["message"]["content"][0]["id"]
    frame = {key: value for key, value in last.items() if key not in ("message", "requestId")}
    result = {"tool_use_id": call, "type": "tool_result", "content": "green", "is_error": False}
    answer = {
        **last["message"],
        "id": "msg_grown",
        "content": [{"type": "text", "text": "Green."}],
        "stop_reason": "end_turn",
    }
    with crashed.open("a") as file:
        for record in (
            {
                **frame,
                "type": "user",
                "uuid": "grown-1",
                "parentUuid": last["uuid"],
                "message": {"role": "user", "content": [result]},
            },
            {
                **frame,
                "type": "assistant",
                "uuid": "grown-2",
                "parentUuid": "grown-1",
                "requestId": "req_grown",
                "message": answer,
            },
        ):
            file.write(json.dumps(record) + "\n")
    assert polyc(copy, "import", "--final", "--persona", "maren", str(tmp_path / "grown")).code == 0
    assert ask(copy, "SELECT COUNT(*) AS n FROM turns") == [{"n": len(TURNS)}]
    assert "messages" in relations_holding(copy, "Roll quay-2 forward")


def test_a_line_that_cannot_be_read_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    write_sample(tmp_path / "home")
    broken = next(path for path in sorted(tmp_path.rglob("*.jsonl")) if b"Which machines" not in path.read_bytes())
    lines = broken.read_bytes().splitlines(keepends=True)
    broken.write_bytes(b"".join([lines[0], b'{"half": \n', *lines[1:]]))
    said = polyc(tmp_path / "root", "import", "--final", "--report", str(tmp_path / "home"))
    assert said.code == 0
    assert f"{broken}: line 2, byte {len(lines[0])}: not_json" in said.err
    sql = "SELECT COUNT(*) AS n FROM import_quarantine"
    assert ask(tmp_path / "root", sql) == [{"n": 1}]
    assert ask(tmp_path / "root", "SELECT COUNT(*) AS n FROM turns") == [{"n": len(COMMITTED)}]


def test_verify_accepts_what_nobody_touched(root: Path) -> None:
    said = polyc(root, "verify")
    assert said.code == 0, said.err
    report = json.loads(polyc(root, "verify", "--json").out)
    assert report["faults"] == []
    assert report["entries"] > 0


def test_verify_finds_and_names_one_flipped_byte(copy: Path) -> None:
    place = ask(copy, "SELECT partition, position FROM messages WHERE text LIKE 'The harbour page%'")[0]
    journal = DataRoot(copy).journal_file
    connection = apsw.Connection(str(journal), flags=apsw.SQLITE_OPEN_READONLY)
    position, count, body = connection.execute(
        "SELECT position, n, body FROM append JOIN part USING (pid) WHERE name = ? AND position <= ?"
        " ORDER BY position DESC LIMIT 1",
        (place["partition"], place["position"]),
    ).fetchone()
    connection.close()
    content = journal.read_bytes()
    offset = content.index(body[:32]) + 31
    journal.write_bytes(content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :])
    said = polyc(copy, "verify", "--json")
    assert said.code == 3
    faults = json.loads(said.out)["faults"]
    found = {fault["place"].rpartition("@")[2] for fault in faults if place["partition"] in fault["place"]}
    assert {int(at) for at in found} <= set(range(position, position + count))
    assert found
    told = polyc(copy, "verify")
    assert told.code == 3
    assert place["partition"] in told.out.decode() + told.err


def test_the_tables_come_back_from_the_journal(copy: Path) -> None:
    sql = "SELECT * EXCLUDE (recorded_at) FROM messages ORDER BY partition, position"
    before = ask(copy, sql)
    shutil.rmtree(DataRoot(copy).artifacts)
    assert polyc(copy, "project").code == 0
    assert ask(copy, sql) == before
    assert polyc(copy, "project", "--rebuild").code == 0
    assert ask(copy, sql) == before


def test_without_a_deployment_there_is_a_hint(tmp_path: Path) -> None:
    said = polyc(tmp_path / "nothing", "query", "SELECT 1")
    assert said.code == 1
    assert said.err.startswith("polyc: error: failed_precondition: no deployment in ")
    assert "polyc: hint: polyc import" in said.err
    assert not (tmp_path / "nothing").exists()


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    said = polyc(tmp_path / "root", "import", str(tmp_path / "nowhere"))
    assert (said.code, said.out) == (1, b"")
    assert said.err.startswith("polyc: error: not_found: ")


def test_no_secret_is_told_but_where_it_was_asked_for(root: Path) -> None:
    said = polyc(root, "grant", "--persona", "maren")
    assert said.code == 0
    token = said.out.decode().strip()
    assert token.count(".") == 2
    assert token not in said.err
    bearer = polyc(root, "session", "create", "--persona", "maren").out.decode().strip()
    listed = polyc(root, "session", "list", "--format", "json")
    assert any(row["subject"] == "maren" for row in listed.rows)
    assert bearer.encode() not in listed.out
    held = [path for path in root.rglob("*") if path.is_file() and bearer.encode() in path.read_bytes()]
    assert held == []
