"""A whole deployment as its users run it: `polyc up` in a process of its own, reached over its sockets."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from control.local import LocalControl
from journal import boot
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.ids import SystemIds
from tests.support.ports import free_pair

EXECUTE = "/polychrome.query.v1.QueryService/Execute"
START_S = 60.0
SETTLE_S = 45.0


@dataclass
class Processes:
    """A running deployment; `port` is Control's, the next one the Query edge's."""

    root: DataRoot
    port: int
    process: subprocess.Popen

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def local(self) -> Iterator[LocalControl]:
        """What the command line does beside a running deployment: over the journal's socket."""
        clock, ids = SystemClock(), SystemIds()
        with boot.connect(self.root, clock=clock, ids=ids) as journal:
            yield LocalControl(journal, self.root, clock=clock, ids=ids)

    def session(self, persona: str, *, admin: bool = False) -> str:
        with self.local() as local:
            return local.create_session(persona, admin=admin).bearer

    def execute(self, token: str, sql: str) -> tuple[int, list]:
        """The status and the rows (or the error) of a statement at the Query edge."""
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port + 1}", timeout=30) as client:
            response = client.post(
                EXECUTE, content=json.dumps({"sql": sql}), headers={"authorization": f"Bearer {token}"}
            )
        if response.status_code != 200:
            return response.status_code, [response.json()]
        frames = [json.loads(line) for line in response.text.splitlines()]
        assert "trailer" in frames[-1], frames[-1]
        return 200, [row for frame in frames for row in frame.get("batch", {}).get("rows", [])]

    def ask(self, client, sql: str, *, admin: bool = False) -> list:
        """The rows of a statement under a fresh grant of the client's session."""
        status, rows = self.execute(self.grant(client, admin=admin), sql)
        assert status == 200, rows
        return rows

    def grant(self, client, *, admin: bool = False) -> str:
        """A fresh grant; asked for again while a process is being started again."""
        path = "/api/query/admin-grant" if admin else "/api/query/grant"
        return self.until(lambda: self._granted(client, path), f"{path} answers")

    def settle(self, client, sql: str, wanted: list, *, admin: bool = False) -> None:
        """Ask until the projection has caught up with what was recorded."""
        token = self.grant(client, admin=admin)
        last: tuple = ()

        def is_settled() -> bool:
            nonlocal last
            last = self.execute(token, sql)
            return last == (200, wanted)

        try:
            self.until(is_settled, sql)
        except AssertionError:
            raise AssertionError(f"{sql} gives {last} instead of {wanted}") from None

    def until(self, condition, what: str):
        """Try until the condition answers something true; AssertionError when that takes too long."""
        deadline = SystemClock().monotonic_s() + SETTLE_S
        while SystemClock().monotonic_s() < deadline:
            answer = condition()
            if answer:
                return answer
        raise AssertionError(what)

    def _granted(self, client, path: str) -> str | None:
        try:
            response = client.post(path)
        except httpx.HTTPError:
            return None
        assert response.status_code in {200, 429, 503}, response.text
        return response.json().get("token")


@contextlib.contextmanager
def running(path: Path, *, harnesses: dict) -> Iterator[Processes]:
    """`polyc up` on a new data root; stopped by SIGTERM."""
    root, port = DataRoot(path), free_pair()
    path.mkdir(parents=True, exist_ok=True)
    file = path / "harnesses.json"
    file.write_text(json.dumps(harnesses))
    file.chmod(0o600)
    command = [sys.executable, "-m", "polyc.cli.main", "--data-root", str(path), "up", "--port", str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "Ctrl-C stops everything" in line:
                break
        else:
            raise AssertionError("the deployment did not come up")
        yield Processes(root, port, process)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
