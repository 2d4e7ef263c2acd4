"""`polyc backup` and `polyc restore`: a verified copy, and a refusal to go back in time.

A backup is a folder: `journal.sqlite` (SQLite's online backup, so a writer may go on), `policy.json`, `blobs/`, and
`backup.json` that names the checkpoint it ends with. Private keys are not in it: keep them apart. An older copy under
a newer manifest, receipt or journal is refused with the reason: continuing it would fork the log.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw
import msgspec

from journal import opening
from journal.database import explained, open_reader
from journal.findings import Pin, Report
from journal.lock import WriterLock
from journal.verify import verify_file
from polyc import strict_json
from polyc.dataroot import DataRoot, Policy, decode_policy
from polyc.durable import sync_file, sync_folder, write_file
from polyc.errors import CorruptError, RefusedError

FORMAT: Final = "polychrome/journal/backup/v1"
JOURNAL: Final = "journal.sqlite"
STATEMENT: Final = "backup.json"
_SIDE_FILES: Final = ("-wal", "-shm")


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """What `backup.json` says."""

    format: str
    origin: str
    size: int
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The journal that stands in the data root now; `aside` is where the one before went.

    `lost_sight` tells that the one before did not verify: what it held beyond this one, nobody knows.
    """

    size: int
    root: str
    aside: Path | None
    lost_sight: bool


def backup(root: DataRoot, folder: Path) -> Backup:
    """Copy the data root's journal, policy and blobs into an empty folder, and verify the copy."""
    policy = root.policy()
    opening.check_stands(root.journal_file)
    if folder.exists() and any(folder.iterdir()):
        raise RefusedError(f"{folder} is not empty", code="failed_precondition")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = folder / JOURNAL
    with explained(place=str(target)):
        source = open_reader(root.journal_file)
        copy = apsw.Connection(str(target))
        try:
            with copy.backup("main", source, "main") as running:
                running.step()
            copy.pragma("journal_mode", "delete")
        finally:
            copy.close()
            source.close()
    target.chmod(0o600)
    sync_file(target)
    report = _verified(target, policy)
    write_file(folder / "policy.json", root.policy_file.read_bytes())
    if root.blobs.is_dir():
        shutil.copytree(root.blobs, folder / "blobs", dirs_exist_ok=True)
    made = Backup(format=FORMAT, origin=policy.origin, size=report.entries, root=report.root)
    write_file(folder / STATEMENT, msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    return made


def restore(folder: Path, root: DataRoot, *, policy: Policy | None = None, pins: Sequence[Pin] = ()) -> Restored:
    """Put a backup's journal in the place of the data root's.

    1. The copy is this log's, verifies, and is what it was when it was made. 2. Nobody writes the journal. 3. Nothing
    that is remembered (`pins`: the artifacts' manifest, receipts) and no journal here is newer than the copy, or
    differs from it. 4. The file before goes aside, never away; the copy takes its name.
    """
    policy = policy or (root.policy() if root.exists else _policy(folder))
    # 1.
    source = folder / JOURNAL
    if not source.exists():
        raise RefusedError(f"no backup in {folder}", code="not_found")
    stated = _stated(folder, policy)
    report = _verified(source, policy, pins=[stated])
    root.make()
    # 2.
    lock = WriterLock(root.journal_file.with_name("journal.lock"))
    try:
        # 3.
        here = _journal_here(root, policy)
        remembered = [*pins, *here]
        check_not_behind(report.entries, remembered)
        differing = verify_file(source, policy=policy, pins=remembered)
        if not differing.ok:
            raise CorruptError(differing.faults[0].detail, place=differing.faults[0].place, kind="fork")
        # 4.
        aside = _put_aside(root.journal_file, report.entries)
        temporary = root.journal_file.with_name("journal.sqlite.restoring")
        shutil.copyfile(source, temporary)
        temporary.chmod(0o600)
        sync_file(temporary)
        temporary.rename(root.journal_file)
        sync_folder(root.journal_file.parent)
        if (folder / "blobs").is_dir():
            shutil.copytree(folder / "blobs", root.blobs, dirs_exist_ok=True)
        if not root.exists:
            write_file(root.policy_file, (folder / "policy.json").read_bytes())
    finally:
        lock.release()
    return Restored(size=report.entries, root=report.root, aside=aside, lost_sight=aside is not None and not here)


def check_not_behind(size: int, pins: Sequence[Pin]) -> None:
    """RefusedError when somebody remembers more of this log than `size` entries."""
    newest = max(pins, key=lambda pin: pin.size, default=None)
    if newest is not None and newest.size > size:
        raise RefusedError(
            f"this journal ends at {size}, but {newest.source} has seen {newest.size} entries",
            code="failed_precondition",
            hint="going on from here would fork the log: restore a newer backup, or start a new deployment",
        )


def _verified(path: Path, policy: Policy, *, pins: Sequence[Pin] = ()) -> Report:
    report = verify_file(path, policy=policy, pins=pins)
    if not report.ok:
        fault = report.faults[0]
        raise CorruptError(fault.detail.removeprefix(f"{fault.place}: "), place=fault.place, kind=fault.kind)
    return report


def _journal_here(root: DataRoot, policy: Policy) -> list[Pin]:
    """What the journal in the data root remembers, when it can be read at all."""
    if not root.journal_file.exists():
        return []
    report = verify_file(root.journal_file, policy=policy)
    if not report.ok:
        return []
    pin = Pin(
        size=report.entries, root=bytes.fromhex(report.root), source="the journal in this data root", anchored=False
    )
    return [pin]


def _put_aside(path: Path, size: int) -> Path | None:
    if not path.exists():
        return None
    number = 1
    while (aside := path.with_name(f"{path.name}.before-restore-{size}-{number}")).exists():
        number += 1
    for end in _SIDE_FILES:
        side = path.with_name(path.name + end)
        if side.exists():
            side.rename(aside.with_name(aside.name + end))
    path.rename(aside)
    return aside


def _policy(folder: Path) -> Policy:
    file = folder / "policy.json"
    try:
        return decode_policy(file.read_bytes(), place=str(file))
    except FileNotFoundError:
        raise RefusedError(f"no policy file in {folder}", code="not_found") from None


def _stated(folder: Path, policy: Policy) -> Pin:
    """What the backup itself remembers of the log it was made of."""
    file = folder / STATEMENT
    try:
        content = file.read_bytes()
        strict_json.decode(content)
        made = msgspec.json.decode(content, type=Backup)
        root = bytes.fromhex(made.root)
    except FileNotFoundError:
        raise RefusedError(f"no {STATEMENT} in {folder}", code="not_found") from None
    except (msgspec.DecodeError, ValueError):
        raise CorruptError("not a backup's statement", place=str(file), kind="backup") from None
    if (made.format, made.origin) != (FORMAT, policy.origin):
        raise CorruptError("the backup is another log's, or of another format", place=str(file), kind="backup")
    return Pin(size=made.size, root=root, source=STATEMENT, anchored=False)
