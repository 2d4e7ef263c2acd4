"""One of everything through journal, folds, artifacts and Query plane: the reference's statements, and redaction.

`tests/facts` asks the folds' rows; here the published artifacts answer, under grants.
"""

from pathlib import Path

import pytest

from facts.catalog import TABLES, VIEWS
from polyc.signing import load_signer
from tests.cli.appending import append, issued_now, trust_receipts
from tests.cli.runner import ask, polyc
from tests.facts.everything import MARKED, child, conversation, deployment

STATEMENTS = {
    "messages": """SELECT partition, position, role, text
FROM messages
ORDER BY partition, position;""",
    "turns": "SELECT * FROM turns LIMIT 5;",
    "tokens": """SELECT turn_id,
       SUM(input_tokens)  AS input_tokens,
       SUM(output_tokens) AS output_tokens
FROM usage
GROUP BY turn_id
ORDER BY turn_id;""",
    "unanswered": """SELECT c.name, c.turn_id, c.position
FROM tool_calls c
LEFT JOIN (SELECT tool_call_id FROM tool_calls WHERE block_type = 'result') r
       ON r.tool_call_id = c.tool_call_id
WHERE c.block_type = 'call'
  AND r.tool_call_id IS NULL
ORDER BY c.position DESC;""",
    "payments": """SELECT p.reference, p.amount_base_units, p.asset, a.tool_name, a.outcome
FROM payments p
JOIN approvals a ON a.request_id = p.tool_call_id
ORDER BY p.position DESC;""",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("everything") / "root"
    assert polyc(root, "init").code == 0
    trust_receipts(root)
    others = [journal for journal in deployment() if journal.partition != "sys-keys"]  # init has made that one
    append(root, conversation(issued_at_s=issued_now()), child(), *others)
    assert polyc(root, "project").code == 0
    return root


@pytest.mark.parametrize("subject", [("--admin",), ("--persona", "ada")], ids=["fleet", "participant"])
def test_the_references_five_statements_run_as_written_under_a_grant(root: Path, subject: tuple[str, ...]) -> None:
    said = {name: ask(root, sql, *subject) for name, sql in STATEMENTS.items()}
    mine = subject != ("--admin",)
    assert [row["text"] for row in said["messages"]] == ["please read a.py", "reading", "look"][: 2 if mine else 3]
    assert len(said["turns"]) == (2 if mine else 3)
    assert [list(row.values()) for row in said["tokens"]] == [["t1", 90, 7]]
    assert [row["name"] for row in said["unanswered"]] == ["Bash", "pay", "Task"]
    assert said["payments"] == [
        {
            "reference": "0xAA01",
            "amount_base_units": "10000",
            "asset": "usdc",
            "tool_name": "pay",
            "outcome": "approved",
        }
    ]


def holders(root: Path, marks: list[str]) -> set[tuple[str, str]]:
    """Which table or view holds which mark in some cell; few statements, marks in halves: the audit keeps statements."""
    halves = ", ".join(f"('{mark[:4]}' || '{mark[4:]}')" for mark in marks)
    searches = []
    for item in (*TABLES.values(), *VIEWS.values()):
        cells = ", ".join(f'CAST("{column.name}" AS VARCHAR)' for column in item.columns if column.type != "BLOB")
        searches.append(
            f"SELECT DISTINCT '{item.name}' AS name, m.mark FROM {item.name}, (VALUES {halves}) AS m(mark) "
            f"WHERE contains(concat_ws(' ', {cells}), m.mark)"
        )
    found = set()
    for start in range(0, len(searches), 7):
        rows = ask(root, " UNION ALL ".join(searches[start : start + 7]))
        found |= {(row["name"], row["mark"]) for row in rows}
    return found


def test_what_belongs_to_the_fleet_is_in_no_artifact_that_a_participant_can_name(root: Path) -> None:
    key = load_signer(root / "keys" / "control.pem").public_key.hex()
    found = holders(root, [*MARKED.values(), key, "please read a.py"])
    realms = {item.name: item.realm for item in (*TABLES.values(), *VIEWS.values())}
    marked = {(name, mark) for name, mark in found if mark != "please read a.py"}
    assert {(table, mark) for table, mark in MARKED.items()} <= marked, "each mark is where the fleet finds it"
    assert {realms[name] for name, _ in marked} == {"fleet"}
    assert ("messages", "please read a.py") in found, "the search finds what a participant may see"


def test_raw_keys_are_in_the_fleets_table_alone(root: Path) -> None:
    held = ask(root, "SELECT COUNT(*) AS keys FROM signer_keys WHERE octet_length(public_key) = 32")
    assert held == [{"keys": 8}]
    blobs = {t.name: t.realm for t in TABLES.values() if any(c.type == "BLOB" for c in t.columns)}
    assert blobs == {"signer_keys": "fleet"}, "no other table could carry bytes"


@pytest.mark.parametrize("table", ["signer_keys", "identity_provenance", "settlement_verdicts"])
def test_a_participants_grant_cannot_name_a_table_of_the_fleet(root: Path, table: str) -> None:
    said = polyc(root, "query", "--persona", "ada", f"SELECT * FROM {table}")
    assert said.code == 1
    assert "no table" in said.err
