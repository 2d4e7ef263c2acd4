"""docs/control.md says what is so: its harnesses work, and every operation it names exists."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from control.api.table import OPERATIONS
from control.harness.config import load_harness_file
from polyc.durable import write_file
from tests.control.serving import Client, serving

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "control.md").read_text()


def block(title: str) -> str:
    found = re.search(rf'```python title="{re.escape(title)}"\n(.*?)```', PAGE, flags=re.DOTALL)
    assert found, title
    return found[1]


@pytest.fixture
def harnesses(tmp_path, deployment):
    (tmp_path / "echo.py").write_text(block("echo.py"))
    (tmp_path / "service.py").write_text(block("service.py"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(tmp_path / "service.py"), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    configs = {
        "echo": {"kind": "subprocess", "command": [sys.executable, str(tmp_path / "echo.py")]},
        "agent": {"kind": "http", "url": f"http://127.0.0.1:{port}/turn"},
    }
    write_file(deployment.root.path / "harnesses.json", json.dumps(configs).encode(), mode=0o600)
    yield
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_pages_harnesses_run(harnesses, local) -> None:
    with serving(local.context) as url:
        ada = Client(url, local.create_session("ada").bearer)
        conversation = ada.open(title="release notes")
        assert ada.turn(conversation, "echo")[1]["text"] == "you said: hello"
        assert ada.turn(conversation, "agent")[1]["text"] == "served: hello"


def test_the_pages_list_of_harnesses_is_a_valid_one(tmp_path) -> None:
    found = re.search(r"```json\n(\{\n  \"echo\".*?\n\})\n```", PAGE, flags=re.DOTALL)
    assert found
    write_file(tmp_path / "harnesses.json", found[1].encode(), mode=0o600)
    assert set(load_harness_file(tmp_path / "harnesses.json")) == {"echo", "agent", "chat"}


def test_every_operation_the_page_names_exists() -> None:
    shapes = {re.sub(r"\{[^}]*\}", "{}", operation.path) for operation in OPERATIONS}
    named = set(re.findall(r"`(?:GET|POST|DELETE) (/api/[^` ]*)`", PAGE))
    assert len(named) > 15
    assert {re.sub(r"\{[^}]*\}", "{}", path) for path in named} <= shapes
