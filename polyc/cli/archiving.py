"""`polyc export`, `import-archive`, `backup`, `restore`, `fsck`: the journal's files, away from here and back."""

from argparse import Namespace
from pathlib import Path

from journal import backup as copies
from journal.archive_import import import_archive
from journal.exporting import export
from journal.fsck import fsck
from journal.notices import record_gap, record_recovery
from polyc.cli.console import note, progress
from polyc.cli.deployment import opened, root_of
from polyc.cli.pins import pins_of, read_only
from polyc.cli.verifying import policy_of
from polyc.dataroot import DataRoot
from polyc.durable import create_file
from polyc.errors import CorruptError, RefusedError


def exported(arguments: Namespace) -> int:
    """Write the sealed journal as immutable files; a second export adds only what is new."""
    root = root_of(arguments)
    folder = Path(arguments.folder)
    with read_only(root) as reader, progress("exporting") as bar:

        def moved(done: int, total: int) -> None:
            bar.expect(total)
            bar.reach(done)

        done = export(reader, folder, progress=moved)
    create_file(folder / "policy.json", root.policy_file.read_bytes())
    note(f"{done.size:,} entries in {len(done.files):,} files, {done.added:,} of them new")
    return 0


def imported(arguments: Namespace) -> int:
    """Make a deployment's journal from an archive that verifies against a policy, and give it a root of its own."""
    root, folder = root_of(arguments), Path(arguments.folder)
    if root.exists:
        raise RefusedError(
            f"there is a deployment in {root.path}", code="already_exists", hint="--data-root names a new one"
        )
    policy_file = Path(arguments.policy or folder / "policy.json")
    policy = policy_of(str(policy_file))
    root.make()
    with progress("importing") as bar:

        def moved(done: int, total: int) -> None:
            bar.expect(total)
            bar.reach(done)

        done = import_archive(folder, root.journal_file, policy=policy, progress=moved)
    create_file(root.policy_file, policy_file.read_bytes())
    note(f"{done.size:,} entries of {policy.origin}, root {done.root}")
    if done.torn_bytes:
        note(f"polyc: warning: {done.torn_bytes:,} bytes past the last checkpoint were left out")
    note(
        "polyc: hint: keys are not part of an archive: this copy can be verified and read; copy keys/ to go on writing"
    )
    return 0


def backed_up(arguments: Namespace) -> int:
    """Copy the journal, beside a running writer."""
    done = copies.backup(root_of(arguments), Path(arguments.folder))
    note(f"{done.size:,} entries of {done.origin}, root {done.root}")
    note("polyc: hint: keys/ are not in it; keep them elsewhere, apart from the copy")
    return 0


def restored(arguments: Namespace) -> int:
    """Put a backup in the journal's place; refused when something here has seen more than it holds."""
    root = root_of(arguments)
    policy = policy_of(arguments.policy) if arguments.policy else None
    folder = Path(arguments.folder)
    try:
        pins = pins_of(root)
    except CorruptError:  # the journal here is why there is something to restore: the copy's keys know the manifest too
        pins = pins_of(root, journal=folder / copies.JOURNAL)
    done = copies.restore(folder, root, policy=policy, pins=pins)
    note(f"{done.size:,} entries, root {done.root}")
    if done.aside is not None:
        note(f"the journal that was here is {done.aside}")
    tell_restored(root, done)
    return 0


def tell_restored(root: DataRoot, done: copies.Restored) -> None:
    """The restored log says itself where it was taken up again, and whether something may be missing."""
    if not (root.keys / "control.pem").exists():
        note("polyc: hint: keys/ are not part of a backup: put them back to go on writing")
        return
    with opened(root) as deployment:
        author = deployment.author("control")
        record_recovery(author, detail=f"a backup of {done.size} entries was restored", from_index=done.size)
        if done.lost_sight:
            detail = f"the journal before the restored backup did not verify: what it held beyond index {done.size}"
            record_gap(author, detail=f"{detail} is not known")


def checked(arguments: Namespace) -> int:
    """Compare what the journal's file derives from its entries with the entries; repair only what can be derived."""
    done = fsck(root_of(arguments), repair=arguments.repair)
    for finding in done.findings:
        print(finding)
    note(f"{done.entries:,} entries, {len(done.findings)} findings{', repaired' if done.repaired else ''}")
    if done.findings and not done.repaired:
        raise CorruptError("the file's derived parts differ from its entries", place="journal.sqlite", kind="derived")
    return 0
