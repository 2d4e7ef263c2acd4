"""Runs the commands of README.md's transcripts anew and compares what they print; without `--check` rewrites them.

A transcript is a fenced `console` block below a line `<!-- transcript: NAME -->`. Lines that begin with `$ ` are run by
bash in the repository, one shell for the whole page, with HOME set to the generated sample, so that the same
histories are found on every machine; what they print (stdout and stderr) is the output. Tokens, times and the like
are masked, see MASKS. A block named `serve` holds a command that does not end: it runs in the background until it
says how to stop it, and is stopped with SIGTERM at the end of the page. The block `test` is `make test` itself.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from polyc.cli.sample import write_sample
from tests.support.ports import free_pair

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "README.md"
BLOCK: Final = re.compile(r"(<!-- transcript: (?P<name>\w+) -->\n```console\n)(?P<body>.*?)(```\n)", re.DOTALL)
PORT_SHOWN: Final = 8420
# Whoever runs this has an environment; making it anew would need the network.
MADE: Final = "-o .venv/uv/bin/uv -o .venv/.dev -o .venv/.run"
READY: Final = "Ctrl-C stops everything."
DEADLINE_S: Final = 120
PIPES: Final[Any] = {
    "cwd": ROOT,
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
}
MASKS: Final = (  # what differs from run to run, and the text that stands for it
    (re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+"), "eyJ…"),
    (re.compile(r"POLYCHROME_SESSION=\S+"), "POLYCHROME_SESSION=…"),
    (re.compile(r'"expires_at_ms":\s*"?\d+"?'), '"expires_at_ms":1796000000000'),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "…"),
    (
        re.compile(r'"(elapsed\w*|generation\w*|queryId|query_id|as_?[oO]f|frontier\w*)":("[^"]*"|\d+(\.\d+)?)'),
        r'"\1":"…"',
    ),
    (re.compile(r"\bg-[0-9a-f]{20}\b"), "g-…"),
    (re.compile(r"polychrome\.local/[0-9a-f]+"), "polychrome.local/…"),
    (re.compile(r"(?m)^(journal {5}|generation {2}|lag {9}).*$"), r"\1…"),
    (re.compile(r"[\d,]+ entries of [\d,]+ incarnations"), "… entries of … incarnations"),
    (re.compile(r"entries 0 to [\d,]+"), "entries 0 to …"),
    (re.compile(r"\d+(\.\d+)? s\b"), "… s"),
    (re.compile(r"\b\d+ ms\b"), "… ms"),
)


def main() -> int:
    """Compare or rewrite."""
    page = PAGE.read_text()
    fresh = transcribe(page)
    if "--check" not in sys.argv:
        PAGE.write_text(fresh)
        return 0
    if fresh == page:
        return 0
    shown = dict(_bodies(page))
    for name, body in _bodies(fresh):
        if shown.get(name) != body:
            print(
                f"README.md: transcript {name} is stale; python tools/transcripts.py rewrites it. It says now:\n{body}"
            )
    return 1


def transcribe(page: str) -> str:
    """The page with what its commands print today."""
    with _shell() as shell:

        def fresh(block: re.Match[str]) -> str:
            if block["name"] == "test":
                return f"{block[1]}{make_test()}{block[4]}"
            return f"{block[1]}{shell.transcript(block['body'], serve=block['name'] == 'serve')}{block[4]}"

        return BLOCK.sub(fresh, page)


def make_test() -> str:
    """What `make test` prints. It runs this very check, so its steps are read, not run, and its tests not counted."""
    steps = re.findall(r"^\t\$\(call step,([\w ]+),", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert steps, "the Makefile has steps"
    lines = "".join(f"{step:14}ok\n" for step in steps)
    return f"$ make test\n{lines}… passed, … skipped in … s\n"


class Shell:
    """A home with the sample, a data root, a free port, and the server that a block may have started."""

    def __init__(self, home: Path, *, port: int) -> None:
        self._port = port
        self._server: subprocess.Popen[str] | None = None
        self._script = home / "before.sh"
        self._script.write_text("")
        self._environment = {
            **os.environ,
            "HOME": str(home),
            "LOGNAME": "dev",
            "POLYC_HOME": str(home / "data"),
            "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "COLUMNS": "110",
        }

    def transcript(self, body: str, *, serve: bool) -> str:
        """The block's commands, each with its fresh output."""
        return "".join(f"$ {command}\n{self._run(command, serve=serve)}" for command in commands_of(body))

    def close(self) -> None:
        """Stop the server that was started."""
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            self._server.wait(DEADLINE_S)

    def _run(self, command: str, *, serve: bool) -> str:
        real = re.sub(r"^make ", f"make -s {MADE} ", command)
        real = real.replace(str(PORT_SHOWN + 1), str(self._port + 1)).replace(str(PORT_SHOWN), str(self._port))
        if serve:
            return self._shown(self._serve(real))
        # Variables that a command sets are there for the next one.
        keep = f"__code=$?; declare -p TOKEN POLYCHROME_SESSION 2>/dev/null > {self._script}; exit $__code"
        script = f"source {self._script}\n{real}\n{keep}"
        done = subprocess.run(["bash", "-c", script], env=self._environment, timeout=DEADLINE_S, check=False, **PIPES)
        return self._shown(done.stdout)

    def _serve(self, command: str) -> str:
        environment = {**self._environment, "PORT": str(self._port)}
        self._server = subprocess.Popen(["bash", "-c", f"exec {command}"], env=environment, **PIPES)
        assert self._server.stdout is not None
        said = ""
        for line in self._server.stdout:
            said += line
            if exported := re.search(r"POLYCHROME_SESSION=\S+", line):
                self._script.write_text(f"export {exported[0]}\n")
            if READY in line:
                break
        return said

    def _shown(self, text: str) -> str:
        text = text.replace(self._environment["HOME"], "/home/dev")
        text = text.replace(str(self._port + 1), str(PORT_SHOWN + 1)).replace(str(self._port), str(PORT_SHOWN))
        for pattern, mask in MASKS:
            text = pattern.sub(mask, text)
        text = "\n".join(line.rstrip() for line in text.split("\n"))
        return text if not text or text.endswith("\n") else text + "\n"


def commands_of(body: str) -> list[str]:
    """The commands of a block; one that ends with a backslash goes on in the next line."""
    commands: list[str] = []
    continued = False
    for line in body.split("\n"):
        if line.startswith("$ "):
            commands.append(line[2:])
        elif continued:
            commands[-1] += f"\n{line}"
        else:
            continue
        continued = line.endswith("\\")
    return commands


def _bodies(page: str) -> list[tuple[str, str]]:
    return [(block["name"], block["body"]) for block in BLOCK.finditer(page)]


@contextmanager
def _shell() -> Iterator[Shell]:
    home = Path(tempfile.mkdtemp(prefix="polyc-readme-"))
    shell = None
    try:
        write_sample(home)
        shell = Shell(home, port=free_pair())
        yield shell
    finally:
        if shell is not None:
            shell.close()
        shutil.rmtree(home)


if __name__ == "__main__":
    sys.exit(main())
