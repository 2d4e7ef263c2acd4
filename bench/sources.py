"""Importing whole histories: ours (parsed, redacted, signed, in the journal) against what PyPI has for the same files.

    python -m bench.sources CORPUS [PEERS]

CORPUS is a folder with `claude/projects` and `codex/sessions` (see the generator in the steering repository); PEERS a
folder where the peers' virtual environments are, or are made with `uv`. Measured are CPU seconds of the process and
its children, because wall time on a shared machine says little: the first import, a second one without changes, and
the bytes on disk. Ours keeps what the peers skip (bodies of edits, reasoning, whole results) and signs it.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Measurement

PEERS = {"agent-session-analytics": ("0.2.1", "duckdb-cli"), "agentsview": ("0.46.1",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU seconds of the first import and of one without changes, and what lies on disk then."""

    first_s: float
    again_s: float
    disk_bytes: int


def measure(corpus: Path, peers: Path) -> list[Measurement]:
    """Ours against each peer that could be installed; a rate is megabytes of history a CPU second."""
    size_mb = sum(path.stat().st_size for path in corpus.rglob("*.jsonl")) / 1e6
    ours = of_polyc(corpus)
    found = []
    for name, cost in (("agent-session-analytics", of_analytics), ("agentsview", of_agentsview)):
        other = cost(corpus, installed(name, peers))
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
                    peer_name=f"{name} {PEERS[name][0]}",
                    note=f"on disk {ours.disk_bytes / 1e6:.0f} MB against {other.disk_bytes / 1e6:.0f} MB",
                )
            )
    return found


def of_polyc(corpus: Path) -> Cost:
    """`polyc import`, without the projection (measured in bench/replay.py)."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"POLYC_HOME": folder}
        command = [Path(sys.executable).with_name("polyc"), "import", "--no-project"]
        command += [corpus / "claude", corpus / "codex"]
        return _cost(command, command, Path(folder), environment)


def of_analytics(corpus: Path, venv: Path) -> Cost:
    """`agent-session-analytics ingest`; it has no refresh, `ingest` is run again."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
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
        environment = os.environ | {
            "HOME": folder,
            "AGENTSVIEW_DATA_DIR": f"{folder}/data",
            "CLAUDE_PROJECTS_DIR": str(corpus / "claude" / "projects"),
            "CODEX_SESSIONS_DIR": str(corpus / "codex" / "sessions"),
            "AGENTSVIEW_TELEMETRY_ENABLED": "0",
            "AGENTSVIEW_NO_DAEMON": "1",
        }
        program = next(venv.rglob("agentsview/bin/agentsview"))
        return _cost([program, "sync"], [program, "sync"], Path(folder), environment)


def installed(name: str, peers: Path) -> Path:
    """The peer's own virtual environment."""
    venv = peers / name
    if not venv.exists():
        uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
        version, *extra = PEERS[name]
        subprocess.run([uv, "venv", "-q", venv], check=True)
        subprocess.run([uv, "pip", "install", "-q", "-p", venv, f"{name}=={version}", *extra], check=True)
    return venv


def _cost(first: list, again: list, folder: Path, environment: dict[str, str]) -> Cost:
    first_s = _cpu_s(first, environment)
    return Cost(first_s=first_s, again_s=_cpu_s(again, environment), disk_bytes=_size(folder))


def _cpu_s(command: list, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(word) for word in command], check=True, env=environment, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> int:
    """Measure and print the table."""
    from bench.run import render

    corpus = Path(sys.argv[1])
    peers = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.gettempdir()) / "polyc-bench-peers"
    print(render(measure(corpus, peers)).replace("best of three rounds", "one round"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
