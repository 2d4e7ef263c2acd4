"""`polyc import`: read what is new in agents' files, append it, project it, and say what was done.

When nothing is new the command ends before it loads what it would need to append: looking twice costs nearly nothing.
"""

import os
from argparse import Namespace
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from polyc.cli.console import note
from polyc.dataroot import DataRoot, default_data_root
from polyc.errors import PolycError, RefusedError
from polyc.ids import check_persona
from sources import Cursors, Importer, Report, default_paths

_BLOCK_SIZE_BYTES: Final = 1024 * 1024


def run(arguments: Namespace) -> int:
    """Import, then project unless told not to."""
    root = default_data_root(arguments.data_root)
    paths, final = paths_of(arguments, sample=root.path / "sample")
    report = nothing_new(root, paths, final=final, project=not arguments.no_project)
    if report is not None:
        tell_report(report, every_line=arguments.report)
        return 0
    from control.local import default_persona
    from polyc.cli.deployment import opened
    from polyc.cli.import_loop import import_paths
    from polyc.cli.projecting import project, tell

    persona = check_persona(arguments.persona or default_persona())
    with opened(root, create=True) as deployment:
        report = import_paths(deployment, paths, final=final, persona=persona)
        tell_report(report, every_line=arguments.report)
        if not arguments.no_project:
            tell(project(deployment))
    return 0


def nothing_new(root: DataRoot, paths: list[Path], *, final: bool, project: bool) -> Report | None:
    """The report of a look that found nothing to do; None when there is something, or when one cannot tell."""
    if not (root.exists and root.journal_file.exists() and (root.sources / "cursors.sqlite").exists()):
        return None
    from polyc.clock import SystemClock

    with closing(Cursors.open(root.sources / "cursors.sqlite")) as cursors:
        importer = Importer(cursors)
        if importer.survey(paths, now_us=SystemClock().now_us(), final=final).changed or importer.has_set_aside:
            return None
    return None if project and not is_projected(root) else importer.report


def is_projected(root: DataRoot) -> bool:
    """Whether the newest manifest says that it covers the whole journal.

    Nothing is verified here: a wrong answer makes this command do too much or too little, and changes nothing else.
    """
    from journal.reading import SqliteReader

    try:
        newest = max((root.artifacts / "gen").glob("*.json"))
        frontier = msgspec.json.decode(newest.read_bytes())["body"]["frontier"]["size"]
        policy = root.policy()
        with SqliteReader(
            root.journal_file, origin=policy.origin, root_public_key=bytes.fromhex(policy.root_key)
        ) as reader:
            return bool(frontier >= reader.size())
    except (ValueError, KeyError, TypeError, OSError, msgspec.DecodeError, PolycError):
        return False


def paths_of(arguments: Namespace, *, sample: Path) -> tuple[list[Path], bool]:
    """Where to read (given, else where agents keep theirs, else the sample), and whether those files are final."""
    if arguments.paths:
        paths = [Path(name) for name in arguments.paths]
        for path in paths:
            if not path.exists():
                raise RefusedError(f"no such file or folder: {path}", code="not_found")
        return paths, arguments.final
    found = list(default_paths(Path.home(), os.environ))
    if found:
        return found, arguments.final
    if not arguments.or_sample:
        raise RefusedError(
            "no agent histories on this machine",
            code="not_found",
            hint="name a file or folder, or try the shipped sample: polyc import --or-sample",
        )
    from polyc.cli.sample import write_sample

    note("no agent histories on this machine: importing the shipped sample")
    return write_sample(sample), True


def place_of(path: str, offset: int) -> str:
    """`line N, byte M` of a file of lines, else `byte M`."""
    if Path(path).suffix not in {".jsonl", ".ndjson"}:
        return f"byte {offset}"
    number, left = 1, offset
    try:
        with Path(path).open("rb") as stream:
            while left and (block := stream.read(min(left, _BLOCK_SIZE_BYTES))):
                number += block.count(b"\n")
                left -= len(block)
    except OSError:
        return f"byte {offset}"
    return f"line {number}, byte {offset}"


def tell_report(report: Report, *, every_line: bool) -> None:
    """What was found and done, and, when asked for, each piece that could not be read: file, byte offset, reason."""
    note(
        f"{report.conversations:,} conversations ({report.conversations_new:,} new): "
        f"{report.events:,} events appended, {report.turns:,} turns ended, {report.unfinished:,} unfinished"
    )
    note(
        f"{report.files_read:,} of {report.files:,} files read: {report.records:,} records, {report.copies:,} copies, "
        f"{sum(report.redacted.values()):,} redactions, {len(report.quarantined):,} quarantined"
    )
    if every_line:
        for path, piece in report.quarantined:
            note(f"{path}: {place_of(path, piece.offset)}: {piece.reason}" + (piece.detail and f": {piece.detail}"))
        for path, piece in report.incomplete:
            note(f"{path}: {place_of(path, piece.offset)}: not written to its end yet, read when it is")
        for path in report.unrecognised:
            note(f"{path}: not a history of a known form")
        for path in report.empty:
            note(f"{path}: holds no conversation")
        for path in report.doubles:
            note(f"{path}: a shorter copy of a session that another file tells")
        for kind, count in sorted(report.unknown.items()):
            note(f"unknown record type {kind}: {count:,}, kept and counted")
        return
    if report.quarantined:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(report.quarantined_by_reason.items()))
        note(f"polyc: warning: could not be read: {reasons}")
        note("polyc: hint: polyc import --report names each file and byte offset; so does the table import_quarantine")
    if report.unrecognised:
        note(f"polyc: warning: not a history of a known form: {len(report.unrecognised):,} of the files")
        note("polyc: hint: polyc import --report names them")
