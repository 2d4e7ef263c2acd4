"""Importing whole histories: ours (parsed, redacted, signed, in the journal) against what PyPI has for the same files.

    python -m bench.sources CORPUS [PEERS [--polylogue]]

CORPUS is a folder with `claude/projects` and `codex/sessions` (see the generator in the steering repository); PEERS a
folder where the peers' virtual environments are, or are made with `uv`. Measured are CPU seconds of the process and
its children, because wall time on a shared machine says little: the first import, a second one without changes, and
the bytes on disk. Ours keeps what the peers skip (bodies of edits, reasoning, whole results) and signs it; its tables
and its search index are measured apart (`bench/replay.py`, `bench/search.py`). `grep -c` is the floor: it reads every
byte and keeps nothing. All Python programs have their bytecode, as pip installs it; polylogue is a daemon that needs
minutes, and a SQLite that the machine's Python may not have (one of a wheel is put before it).
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Measurement

if TYPE_CHECKING:
    from collections.abc import Callable

PEERS = {
    "agent-session-analytics": ("0.2.1", "duckdb-cli==1.5.6"),
    "agentsview": ("0.46.1",),
    "polylogue": ("0.2.0", "pyproj==3.7.2"),
}
SYSTEM_PYTHON = "/usr/bin/python3"  # polylogue loads extensions into SQLite; not every build of Python can
IDLE_S = 20.0  # a daemon that used next to nothing for so long has done its work


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU seconds of the first import and of one without changes, and what lies on disk then."""

    first_s: float
    again_s: float
    disk_bytes: int


def measure(corpus: Path, peers: Path, *, with_polylogue: bool = False) -> list[Measurement]:
    """Ours against each peer; a rate is megabytes of history a CPU second."""
    size_mb = sum(path.stat().st_size for path in corpus.rglob("*.jsonl")) / 1e6
    costs: dict[str, Callable[[], Cost]] = {
        "agent-session-analytics 0.2.1": lambda: of_analytics(corpus, installed("agent-session-analytics", peers)),
        "agentsview 0.46.1": lambda: of_agentsview(corpus, installed("agentsview", peers)),
        "grep -c": lambda: of_grep(corpus),
    }
    if with_polylogue:
        costs["polylogue 0.2.0"] = lambda: of_polylogue(corpus, installed("polylogue", peers, python=SYSTEM_PYTHON))
    ours = of_polyc(corpus)
    found = []
    for name, cost in costs.items():
        other = cost()
        for what, mine, theirs in (
            ("first import", ours.first_s, other.first_s),
            ("import without changes", ours.again_s, other.again_s),
        ):
            found.append(
                Measurement(
                    what=f"{what}, {size_mb:.0f} MB",
                    unit="MB/CPU s",
                    ours=size_mb / mine,
                    peer=size_mb / theirs,
                    peer_name=name,
                    note=f"{mine:.2f} against {theirs:.2f} CPU s; on disk {ours.disk_bytes / 1e6:.0f} MB "
                    f"against {other.disk_bytes / 1e6:.0f} MB",
                )
            )
    return found


def of_polyc(corpus: Path) -> Cost:
    """`polyc import`, without the projection (measured in bench/replay.py)."""
    with tempfile.TemporaryDirectory() as folder:
        environment = plain_environment() | {"POLYC_HOME": folder}
        command = [Path(sys.executable).with_name("polyc"), "import", "--no-project"]
        command += [corpus / "claude", corpus / "codex"]
        return _cost(command, command, Path(folder), environment)


def of_analytics(corpus: Path, venv: Path) -> Cost:
    """`agent-session-analytics ingest`; it has no refresh, `ingest` is run again."""
    with tempfile.TemporaryDirectory() as folder:
        environment = plain_environment() | {
            "HOME": folder,
            "CLAUDE_CONFIG_DIR": str(corpus / "claude"),
            "CODEX_HOME": str(corpus / "codex"),
            "SESSIONS_DB": f"{folder}/sessions.duckdb",
            "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
        }
        program = venv / "bin" / "agent-session-analytics"
        return _cost([program, "ingest", "--force"], [program, "ingest"], Path(folder), environment)


def of_agentsview(corpus: Path, venv: Path) -> Cost:
    """`agentsview sync`, its telemetry off."""
    with tempfile.TemporaryDirectory() as folder:
        environment = plain_environment() | {
            "HOME": folder,
            "AGENTSVIEW_DATA_DIR": f"{folder}/data",
            "CLAUDE_PROJECTS_DIR": str(corpus / "claude" / "projects"),
            "CODEX_SESSIONS_DIR": str(corpus / "codex" / "sessions"),
            "AGENTSVIEW_TELEMETRY_ENABLED": "0",
            "AGENTSVIEW_NO_DAEMON": "1",
        }
        program = next(venv.rglob("agentsview/bin/agentsview"))
        return _cost([program, "sync"], [program, "sync"], Path(folder), environment)


def of_grep(corpus: Path) -> Cost:
    """The floor: every byte is read, nothing is kept."""
    command = ["grep", "-rc", "zanzibar quasar", corpus / "claude", corpus / "codex"]
    return _cost(command, command, Path("/nonexistent"), plain_environment())


def of_polylogue(corpus: Path, venv: Path) -> Cost:
    """`polylogued run` until it is idle, twice."""
    with tempfile.TemporaryDirectory() as folder:
        environment = polylogue_environment(corpus, venv, Path(folder))
        command = [venv / "bin" / "polylogued", "run", "--no-browser-capture", "--no-api"]
        first_s = _cpu_until_idle_s(command, environment)
        again_s = _cpu_until_idle_s(command, environment)
        return Cost(first_s=first_s, again_s=again_s, disk_bytes=_size(Path(environment["XDG_DATA_HOME"])))


def polylogue_environment(corpus: Path, venv: Path, home: Path) -> dict[str, str]:
    """A home with a copy of the corpus, and the newer SQLite of a wheel."""
    (home / ".claude").mkdir()
    (home / ".codex").mkdir()
    shutil.copytree(corpus / "claude" / "projects", home / ".claude" / "projects")
    shutil.copytree(corpus / "codex" / "sessions", home / ".codex" / "sessions")
    library = home / "sqlite"
    library.mkdir()
    shutil.copy(next(venv.rglob("pyproj.libs/libsqlite3*")), library / "libsqlite3.so.0")
    return plain_environment() | {
        "HOME": str(home),
        "XDG_DATA_HOME": f"{home}/data",
        "XDG_CONFIG_HOME": f"{home}/config",
        "XDG_STATE_HOME": f"{home}/state",
        "XDG_CACHE_HOME": f"{home}/cache",
        "LD_LIBRARY_PATH": str(library),
    }


def plain_environment() -> dict[str, str]:
    """Ours without what keeps Python from using its bytecode, or its own libraries."""
    dropped = {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "CLAUDE_CONFIG_DIR", "CODEX_HOME"}
    return {name: value for name, value in os.environ.items() if name not in dropped}


def installed(name: str, peers: Path, *, python: str = "3.11") -> Path:
    """The peer's own virtual environment."""
    venv = peers / name
    if not venv.exists():
        uv = shutil.which("uv") or str(Path(sys.executable).parents[1] / "uv" / "bin" / "uv")
        version, *extra = PEERS[name]
        subprocess.run([uv, "venv", "-q", "-p", python, venv], check=True)
        wanted = [f"{name}=={version}", *extra]
        subprocess.run([uv, "pip", "install", "-q", "--compile-bytecode", "-p", venv, *wanted], check=True)
    return venv


def _cpu_until_idle_s(command: list, environment: dict[str, str]) -> float:
    """CPU seconds of a daemon from its start until it has done nothing for a while."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(
        [str(word) for word in command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        last_s, since = -1.0, time.monotonic()
        while process.poll() is None and time.monotonic() - since < IDLE_S:
            time.sleep(0.5)
            now_s = used_s(process.pid)
            if now_s - last_s > 0.2:
                last_s, since = now_s, time.monotonic()
        process.send_signal(signal.SIGTERM)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def used_s(pid: int) -> float:
    """CPU seconds of a running process and of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _cost(first: list, again: list, folder: Path, environment: dict[str, str]) -> Cost:
    """A program is started once before it is measured: what starts for the first time writes its bytecode."""
    subprocess.run([str(first[0]), "--help"], check=False, env=environment, capture_output=True)
    first_s = _cpu_s(first, environment)
    return Cost(first_s=first_s, again_s=_cpu_s(again, environment), disk_bytes=_size(folder))


def _cpu_s(command: list, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(word) for word in command], check="grep" not in command, env=environment, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> int:
    """Measure and print the table."""
    from bench.run import render

    corpus = Path(sys.argv[1])
    named = [word for word in sys.argv[2:] if not word.startswith("--")]
    peers = Path(named[0]) if named else Path(tempfile.gettempdir()) / "polyc-bench-peers"
    table = render(measure(corpus, peers, with_polylogue="--polylogue" in sys.argv))
    print(table.replace("best of three rounds", "one round"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
