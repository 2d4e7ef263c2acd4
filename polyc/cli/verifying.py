"""`polyc verify`: recompute all that the journal claims, and with `--artifacts` the tables too; exit 3 for a lie.

Kind and place of each fault go to stdout with the rest of the report: they are the data that was asked for.
"""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import msgspec

from artifacts.store import DirectoryStore
from journal.findings import Fault, Pin, Report
from journal.verify import verify
from polyc.cli.console import progress
from polyc.cli.deployment import opened, root_of
from polyc.cli.output import write_object
from polyc.cli.pins import pins_of
from polyc.cli.vkeys import witness_key
from polyc.dataroot import DataRoot, Policy, decode_policy
from polyc.errors import CorruptError, RefusedError, UnavailableError
from projector.verify import Verified, verify_artifacts


def run(arguments: Namespace) -> int:
    """Verify and report."""
    root = root_of(arguments)
    policy = policy_of(arguments.policy) if arguments.policy else root.policy()
    pins = manifest_pins(root)
    with progress("verifying") as bar:

        def moved(done: int, total: int) -> None:
            bar.expect(total)
            bar.reach(done)

        witnesses = [witness_key(vkey) for vkey in arguments.witness]
        report = verify(root, level=arguments.level, policy=policy, pins=pins, witnesses=witnesses, progress=moved)
    tables = verified_tables(root) if arguments.artifacts and report.ok else None
    if arguments.json:
        found = {} if tables is None else {"artifacts": msgspec.to_builtins(tables)}
        write_object(report.to_json() | found)
    else:
        print("\n".join([*lines_of(report), *(lines_of_tables(tables) if tables is not None else ())]))
    if not report.ok:
        raise CorruptError(detail_of(report.faults[0]), place=report.faults[0].place)
    if tables is not None and tables.difference is not None:
        place = f"{tables.difference.table} of {tables.difference.partition}"
        raise CorruptError(tables.difference.detail, place=place)
    return 0


def manifest_pins(root: DataRoot) -> list[Pin]:
    """What the tables remember of the log; a journal too damaged to be opened is told by `verify` itself."""
    try:
        return pins_of(root)
    except (CorruptError, UnavailableError):
        return []


def verified_tables(root: DataRoot) -> Verified:
    """The published tables recomputed from the journal."""
    with opened(root) as deployment:
        store = DirectoryStore(deployment.root.artifacts)
        return verify_artifacts(deployment.journal, store, clock=deployment.clock, ids=deployment.ids)


def policy_of(name: str) -> Policy:
    """A policy that came from outside this data root: then its keys are not taken on this disk's word."""
    try:
        return decode_policy(Path(name).read_bytes(), place=name)
    except OSError as error:
        raise RefusedError(f"{name} cannot be read: {error.strerror}", code="not_found") from None


def lines_of(report: Report) -> Iterator[str]:
    """The report for a person."""
    count = len(report.faults)
    verdict = "ok" if report.ok else f"{count} fault{'s' * (count > 1)}"
    counted = f"{report.entries:,} entries of {report.partitions:,} incarnations"
    yield f"{report.origin}: {counted} at level {report.level}: {verdict}"
    for fault in report.faults:
        yield f"  {fault.kind} at {fault.place}: {detail_of(fault)}"
    if not report.ok:
        return
    for first, end in report.anchored_ranges:
        yield f"  entries {first:,} to {end - 1:,} are vouched for from outside: {', '.join(report.anchors)}"
    for first, end in report.unanchored_ranges:
        yield f"  entries {first:,} to {end - 1:,} are vouched for by this disk alone"


def detail_of(fault: Fault) -> str:
    """What is wrong, without the place that stands beside it."""
    return fault.detail.removeprefix(f"{fault.place}: ")


def lines_of_tables(tables: Verified) -> Iterator[str]:
    """What the comparison of the tables found, for a person."""
    verdict = "equal to the journal's" if tables.difference is None else "NOT equal to the journal's"
    yield f"generation {tables.generation}: {tables.rows:,} rows of {tables.partitions:,} partitions: {verdict}"
