"""Generates the code of `proto/` and checks that what is committed is what the .proto files say.

    tools/proto.py              generate in place
    tools/proto.py --check      lint, compare the committed code with a fresh generation, refuse breaking changes
    tools/proto.py --baseline   accept the present .proto files as the baseline of later breaking checks

Two generators, because two runtimes coexist (architecture.md, "Packages chosen"): `polychrome/query` and
`polychrome/search` are Connect (protoc-gen-py and protoc-gen-connectrpc, run by buf), `polychrome/journal` is gRPC
(grpcio-tools, google's protobuf).
Everything runs from the virtual environment; nothing is fetched.
"""

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
BASELINE = PROTO / "baseline.binpb"
GRPC_FOLDER = Path("polychrome/journal")
GENERATED = ("_pb.py", "_connect.py", "_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail on any difference")
    parser.add_argument("--baseline", action="store_true", help="accept the present files as the baseline")
    options = parser.parse_args(arguments)
    buf("lint")
    if options.baseline:
        buf("build", "--exclude-source-info", "-o", str(BASELINE))
        return 0
    if options.check:
        return check()
    generate(PROTO)
    return 0


def check() -> int:
    """0 when a fresh generation equals the committed files and nothing breaks the baseline."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        wanted, there = generated_files(fresh), generated_files(PROTO)
        different = sorted(wanted ^ there) + sorted(
            path for path in wanted & there if not filecmp.cmp(fresh / path, PROTO / path, shallow=False)
        )
    for path in different:
        print(f"proto/{path}: not what the .proto files generate; run tools/proto.py", file=sys.stderr)
    buf("breaking", "--against", str(BASELINE))
    return 1 if different else 0


def generate(out: Path) -> None:
    """Write all generated modules under `out`."""
    buf("generate", "--output", str(out))
    sources = sorted(str(path.relative_to(PROTO)) for path in (PROTO / GRPC_FOLDER).rglob("*.proto"))
    if sources:
        options = [f"-I{PROTO}", f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, *sources], check=True)


def generated_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.py*") if path.name.endswith(GENERATED)}


def buf(*arguments: str) -> None:
    """Run buf in `proto/`, with the virtual environment's plugins on its path and a cache of its own."""
    scripts = sysconfig.get_path("scripts")
    program = shutil.which("buf", path=scripts) or "buf"
    path = os.pathsep.join([scripts, os.environ.get("PATH", "")])
    try:
        subprocess.run([program, *arguments], cwd=PROTO, check=True, env={**os.environ, "PATH": path})
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode or 1)


if __name__ == "__main__":
    sys.exit(main())
