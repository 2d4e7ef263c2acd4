"""Each provider's sample, event by event. `POLYC_UPDATE_GOLDENS=1` writes the goldens anew: read the difference."""

import json
import os
import shutil
from pathlib import Path

import apsw
import pytest

from sources.providers import PROVIDERS
from tests.sources.loop import Loop

HERE = Path(__file__).parent
SAMPLES = sorted(path.name for path in (HERE / "samples").iterdir())
LEFT_OUT = ("id", "source_path", "redaction", "harness", "conversation_id")  # derived, or of the machine


def laid_out(sample: str, folder: Path) -> Path:
    """The sample as its program leaves it: databases are made from their text."""
    target = folder / sample
    shutil.copytree(HERE / "samples" / sample, target)
    for script in target.rglob("*.sql"):
        connection = apsw.Connection(str(script.with_suffix("")))
        connection.execute(script.read_text())
        connection.close()
        script.unlink()
    return target


def rendered(loop: Loop) -> str:
    lines = []
    for partition in sorted(loop.journal.drafts()):
        for draft in loop.journal.drafts()[partition]:
            event = json.loads(draft.payload)
            if "turn" in event:
                event["turn"].pop("conversation_id")
            lines.append(json.dumps({k: v for k, v in event.items() if k not in LEFT_OUT}, ensure_ascii=False))
        lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_provider_tells_its_sample_as_its_golden_says(sample, tmp_path):
    loop = Loop()
    report, _ = loop.run(laid_out(sample, tmp_path), final=True)
    assert report.unrecognised == []
    assert report.empty == []
    golden = HERE / "goldens" / f"{sample}.ndjson"
    text = rendered(loop)
    if os.environ.get("POLYC_UPDATE_GOLDENS"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert loop.run(tmp_path / sample, final=True)[1] == 0


def test_every_provider_has_a_sample():
    named = {name.removesuffix("-db") for name in SAMPLES}
    assert {provider.name for provider in PROVIDERS} == named


def test_a_changed_sample_does_not_fit_its_golden(tmp_path):
    folder = laid_out("claude-code", tmp_path)
    (path,) = folder.glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"There is no timetable.", b"There is one."))
    loop = Loop()
    loop.run(folder, final=True)
    assert rendered(loop) != (HERE / "goldens" / "claude-code.ndjson").read_text()


def test_importing_all_samples_at_once_is_importing_each(tmp_path):
    together, apart = Loop(), Loop()
    folders = [laid_out(sample, tmp_path) for sample in SAMPLES]
    for folder in folders:
        apart.run(folder, final=True)
    together.run(tmp_path, final=True)
    assert together.journal.current() == apart.journal.current()
