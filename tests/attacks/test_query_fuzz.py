"""A million hostile statements against the gate with no seal behind it: none shows a mark, none changes anything.

`POLYC_FUZZ_STATEMENTS` chooses how many the soak run makes. Seeds of DuckDB's own published statements may be named by
`POLYC_FUZZ_SEEDS` (a file, separated by 0x1E); they are not ours to commit.
"""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.attacks.query_fuzzer import fuzz
from tests.support.shared import shared_path

CHUNK = 20_000


def run(seed: int, count: int, seeds: str | None) -> dict:
    """One child: a crash or a hang of the engine is its own death, as in a real worker."""
    command = [sys.executable, "-m", "tests.attacks.query_fuzzer", str(seed), str(count), *([seeds] if seeds else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        died = f"seed {seed} died: {done.returncode} {done.stderr[-500:]}"
        return {"statements": 0, "passed": 0, "answered": 0, "findings": [died]}
    return json.loads(done.stdout)


def test_hundreds_of_statements_show_no_mark():
    seen = fuzz(7, 800, [])
    assert seen["findings"] == []
    assert seen["passed"] > 80, "the fuzzer makes statements that pass, too"
    assert seen["answered"] > 40


def test_the_oracle_notices_a_hole(monkeypatch):
    from tests.attacks import query_fuzzer

    monkeypatch.setitem(query_fuzzer.RELATIONS, "hidden_rows", ["text", "place"])
    assert fuzz(7, 500, [])["findings"] != []


def test_statements_that_broke_others_are_good_seeds():
    lines = shared_path("cases", "sql.jsonl").read_text(encoding="utf-8").splitlines()
    assert fuzz(11, 800, [json.loads(line)["sql"] for line in lines])["findings"] == []


@pytest.mark.soak
def test_a_million_statements_show_no_mark(tmp_path):
    count = int(os.environ.get("POLYC_FUZZ_STATEMENTS", "1000000"))
    seeds = os.environ.get("POLYC_FUZZ_SEEDS")
    total = {"statements": 0, "passed": 0, "answered": 0}
    refused: Counter[str] = Counter()
    findings = []
    for seed in range((count + CHUNK - 1) // CHUNK):
        seen = run(seed, min(CHUNK, count - seed * CHUNK), seeds)
        findings += seen["findings"]
        for key in total:
            total[key] += seen[key]
        refused.update(seen.get("refused", {}))
        print(json.dumps(total | {"findings": findings}), flush=True)
    print(json.dumps(total | {"cpu_seconds": round(sum(os.times()[2:4])), "refused": dict(refused.most_common())}))
    assert findings == []
    assert total["statements"] == count
