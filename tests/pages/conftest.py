"""A served deployment of the sample, and a browser that shows its pages."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from polyc.cli.sample import write_sample
from tests.cli.runner import polyc
from tests.support.ports import free_pair

CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAITS = """
import json, sys, urllib.request
turn = json.loads(sys.stdin.readline())
def say(**event):
    print(json.dumps(event), flush=True)
say(type="tool_call", tool_call_id="t1", name="deploy", arguments='{"to": "production"}')
body = json.dumps({"request_id": "t1", "tool_name": "deploy", "wait_s": 60}).encode()
request = urllib.request.Request(turn["control"]["url"] + "/api/edge/approvals", data=body, method="POST",
    headers={"authorization": "Bearer " + turn["control"]["credential"], "content-type": "application/json"})
outcome = json.load(urllib.request.urlopen(request))["outcome"]
say(type="message", role="assistant", material_origin="assistant_authored",
    blocks=[{"type": "text", "text": "the answer was " + outcome}])
say(type="done", status="completed")
"""


@dataclass(frozen=True)
class Site:
    """A running deployment: where it is reached, and a session of each kind."""

    base: str
    root: Path
    admin: str
    persona: str
    stranger: str

    def api(self, session: str) -> httpx.Client:
        return httpx.Client(base_url=self.base, headers={"authorization": f"Bearer {session}"}, timeout=90)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("pages")
    write_sample(folder / "home")
    root = folder / "root"
    assert polyc(root, "import", "--final", str(folder / "home")).code == 0
    program = folder / "waits.py"
    program.write_text(WAITS)
    harnesses = root / "harnesses.json"
    harnesses.write_text(json.dumps({"waits": {"kind": "subprocess", "command": [sys.executable, str(program)]}}))
    harnesses.chmod(0o600)
    admin = polyc(root, "session", "create", "--admin").out.decode().strip()
    assert polyc(root, "persona", "create", "stranger").code == 0
    stranger = polyc(root, "session", "create", "--persona", "stranger").out.decode().strip()
    port = free_pair()
    command = [sys.executable, "-m", "polyc.cli.main", "--data-root", str(root), "up", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        found = re.search(r"POLYCHROME_SESSION=(\S+)", said)
        assert found, said
        yield Site(f"http://127.0.0.1:{port}", root, admin, found[1], stranger)
        process.terminate()
        process.wait(timeout=60)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the module and no longer: while it is open, its event loop runs in this thread."""
    chromium = shutil.which("chromium")
    assert chromium, "Debian's chromium is missing: `make test` installs it"
    with sync_playwright() as playwright:
        shown = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_FLAGS))
        yield shown
        shown.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh visitor; any script error or policy violation fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    shown = context.new_page()
    faults: list[str] = []
    shown.on("pageerror", lambda error: faults.append(str(error)))
    shown.on("console", lambda said: faults.append(said.text) if _is_violation(said.text) else None)
    yield shown
    context.close()
    assert faults == []


def _is_violation(text: str) -> bool:
    """Chromium's own editing of a contenteditable makes style attributes, which the policy drops: no fault of a page."""
    return "Content Security Policy" in text and not text.startswith("Applying inline style")
