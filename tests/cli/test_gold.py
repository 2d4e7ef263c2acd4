"""The generated corpus with known answers: what is imported equals its gold to the last prompt, call and token.

The corpus and its generator are the steering repository's; where it is not, these tests are skipped.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import ask, polyc, relations_holding
from tests.support.shared import shared_path

NEEDLE_OF_UNFINISHED = "heliotrope uncommitted marker"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    command = [sys.executable, str(shared_path("corpus", "gen_corpus.py")), "--out", str(folder)]
    size = ["--sessions", "500", "--scale", "0.72", "--seed", "7"]
    subprocess.run([*command, *size], check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="module")
def gold(corpus: Path) -> dict[str, Any]:
    return dict(json.loads((corpus / "gold.json").read_text()))


@pytest.fixture(scope="module")
def root(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    said = polyc(root, "import", "--final", str(corpus / "claude"), str(corpus / "codex"))
    assert said.code == 0, said.err
    return root


PROMPT = "role = 'user' AND material_origin = 'human_authored'"
COUNTED = {
    "turns": "FROM turns",
    "turns_cancelled": "FROM turns WHERE status = 'cancelled'",
    "user_prompts": f"FROM (SELECT DISTINCT partition, message_id FROM messages WHERE {PROMPT})",
    "messages": f"FROM (SELECT DISTINCT partition, message_id FROM messages WHERE ({PROMPT}) OR role = 'assistant')",
    "model_calls": "FROM model_call",
    "tool_results": "FROM tool_calls WHERE block_type = 'result'",
    "tool_errors": "FROM tool_calls WHERE block_type = 'result' AND is_error",
}


@pytest.fixture(scope="module")
def numbers(root: Path) -> dict[str, int]:
    [row] = ask(root, "SELECT " + ", ".join(f"(SELECT COUNT(*) {sql}) AS {name}" for name, sql in COUNTED.items()))
    return row


@pytest.mark.parametrize("what", COUNTED)
def test_the_count_equals_the_gold(what: str, numbers: dict[str, int], gold: dict[str, Any]) -> None:
    assert numbers[what] == gold["committed"][what]


def test_tool_calls_by_name(root: Path, gold: dict[str, Any]) -> None:
    rows = ask(root, "SELECT name, COUNT(*) AS n FROM tool_calls WHERE block_type = 'call' GROUP BY name")
    expected = gold["committed"]["tool_calls_by_name"]
    assert {row["name"]: row["n"] for row in rows} == {name: count for name, count in expected.items() if count}


def test_tokens_by_model_are_counted_once(root: Path, gold: dict[str, Any]) -> None:
    sql = """
        SELECT model, SUM(input_tokens) AS i, SUM(output_tokens) AS o, SUM(cache_read_tokens) AS r,
               SUM(COALESCE(cache_write_tokens, 0)) AS w, SUM(COALESCE(reasoning_tokens, 0)) AS t
        FROM usage GROUP BY model
    """
    spent = {row["model"]: [int(row[k]) for k in "iorwt"] for row in ask(root, sql)}
    for model, (tokens_in, tokens_out, cached, fourth) in gold["committed"]["usage"].items():
        expected = (
            [tokens_in, tokens_out, cached, fourth, 0]
            if model.startswith("claude")
            else [tokens_in, tokens_out, cached, 0, fourth]
        )
        assert spent[model] == expected, model
    assert set(spent) == set(gold["committed"]["usage"])


def test_prompts_of_unfinished_turns_are_in_no_table_and_those_of_interrupted_ones_are(
    root: Path, gold: dict[str, Any]
) -> None:
    interrupted = [s["sid"] for s in gold["sessions"] if s.get("fate") in ("interrupted", "aborted")]
    sql = f"""
        SELECT t.status, COUNT(*) AS n FROM messages m JOIN turns t USING (partition, turn_id)
        WHERE m.text LIKE '%{NEEDLE_OF_UNFINISHED}%' AND m.role = 'user' GROUP BY t.status
    """
    assert ask(root, sql) == [{"status": "cancelled", "n": len(interrupted)}]
    crashed = {s["sid"] for s in gold["sessions"] if s.get("fate") == "crashed"}
    sql = f"""
        SELECT DISTINCT s.provider_session_id AS sid FROM messages m JOIN sessions s USING (partition)
        WHERE m.text LIKE '%{NEEDLE_OF_UNFINISHED}%'
    """
    assert len(crashed) == gold["committed"]["turns_unfinished"]
    assert not crashed & {row["sid"] for row in ask(root, sql)}


def test_a_prompt_that_only_an_unfinished_turn_holds_is_nowhere(root: Path, corpus: Path, gold: dict[str, Any]) -> None:
    crashed = [s["sid"] for s in gold["sessions"] if s.get("fate") == "crashed" and s["kind"] == "claude-code"]
    path = next(corpus.rglob(f"{crashed[0]}.jsonl"))
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    prompt = next(
        text
        for line in reversed(lines)
        if line.get("type") == "user"
        and NEEDLE_OF_UNFINISHED in json.dumps(line)
        and (text := _text(line["message"]["content"]))
    )
    assert relations_holding(root, prompt[:120].replace("'", "''")) == []


def test_a_second_import_appends_nothing(root: Path, corpus: Path) -> None:
    before = json.loads(polyc(root, "status", "--json").out)["head"]
    assert polyc(root, "import", "--final", "--no-project", str(corpus / "claude"), str(corpus / "codex")).code == 0
    assert json.loads(polyc(root, "status", "--json").out)["head"] == before


def _text(content: Any) -> str:
    return content if isinstance(content, str) else content[0]["text"]
