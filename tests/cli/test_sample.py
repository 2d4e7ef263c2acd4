"""The shipped sample is the same on every machine and looks like what agents write."""

import hashlib
import json
from pathlib import Path

from polyc.cli.sample import write_sample
from polyc.cli.sample.stories import STORIES


def files_of(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in sorted(home.rglob("*.jsonl"))}


def test_the_sample_is_deterministic(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_sample(first)
    write_sample(second)
    assert files_of(first) == files_of(second)
    digest = hashlib.sha256(repr(files_of(first)).encode()).hexdigest()
    assert digest == hashlib.sha256(repr(files_of(second)).encode()).hexdigest()


def test_there_is_one_file_a_story_and_each_line_is_json(tmp_path: Path) -> None:
    folders = write_sample(tmp_path)
    files = files_of(tmp_path)
    assert len(files) == len(STORIES)
    assert all(folder.is_dir() for folder in folders)
    assert all(json.loads(line) for text in files.values() for line in text.decode().splitlines())


def test_no_id_repeats(tmp_path: Path) -> None:
    write_sample(tmp_path)
    lines = [json.loads(line) for text in files_of(tmp_path).values() for line in text.decode().splitlines()]
    uuids = [line["uuid"] for line in lines if "uuid" in line]
    assert len(uuids) == len(set(uuids)) > 0


def test_the_crashed_turn_has_an_open_call(tmp_path: Path) -> None:
    write_sample(tmp_path)
    crashed = next(text for text in files_of(tmp_path).values() if b"Roll quay-2 forward" in text)
    last = json.loads(crashed.decode().splitlines()[-1])
    assert last["message"]["content"][0]["type"] == "tool_use"
