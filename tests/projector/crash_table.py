"""Ends a process before each of its file operations in turn: `python -m tests.projector.crash_table WORK FOLDER`.

One process per operation, forked from a clean one: it publishes, merges, compacts, rebuilds, purges or collects in a
copy of a store and is ended, without any chance to tidy up, before the n-th file is opened for writing, linked, renamed,
removed, or a folder made. What it leaves must read as before or as after, and the next run must end where one run
without a crash ends. Prints how many operations there were.
"""

import os
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from artifacts.gc import collect
from artifacts.store import DirectoryStore
from polyc.limits import DELTA_FAN_IN
from projector.erasure import prove_gone
from tests.projector.test_erasure import erased
from tests.support.archive import Archive, contents, texts

CRASHED = 9
LATER_S = 400 * 86_400  # the files bear the real time, the archive its own: now every orphan is old
SECRET = "what was said to be forgotten"
OPERATIONS = {"os.link", "os.rename", "os.remove", "os.rmdir", "os.mkdir"}


def prepared(folder: Path, *, deltas: int = 0) -> Archive:
    """Two generations, more for each delta, and something to publish."""
    archive = Archive(folder / "store")
    for text, other in (("one", SECRET), ("two", "harmless")):
        archive.converse("conv-a", text)
        archive.converse("conv-b", other)
        archive.projector.run_once()
    for number in range(deltas):
        archive.converse("conv-b", f"more {number}")
        archive.projector.run_once()
    archive.converse("conv-a", "three")
    return archive


def publish(archive: Archive, store: DirectoryStore) -> None:
    archive.new_projector("p", store=store).run_once()


def compact(archive: Archive, store: DirectoryStore) -> None:
    projector = archive.new_projector("p", store=store)
    projector.run_once()
    projector.compact()


def merge(archive: Archive, store: DirectoryStore) -> None:
    projector = archive.new_projector("p", store=store)
    projector.run_once()
    assert projector.maintain(), "there is something to merge"


def rebuild(archive: Archive, store: DirectoryStore) -> None:
    archive.new_projector("p", store=store).rebuild()


def collected(archive: Archive, store: DirectoryStore) -> None:
    collect(store, keys=archive.journal.keyring, clock=archive.journal.clock, keep_generations=1)


def gather(archive: Archive, store: DirectoryStore) -> None:
    compact(archive, store)
    collected(archive, store)


WORK: dict[str, Callable[[Archive, DirectoryStore], None]] = {
    "publish": publish,
    "merge": merge,
    "compact": compact,
    "rebuild": rebuild,
    "purge": publish,
    "collect": gather,
}


def crash_before(operation: int) -> None:
    """End this process before its n-th file operation."""
    left = count(operation, -1)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (writes or event in OPERATIONS) and next(left) == 1:
            os._exit(CRASHED)

    sys.addaudithook(hook)


def crashed(work: str, archive: Archive, store: DirectoryStore, *, operation: int) -> bool:
    """Whether the work, done by a process of its own, came as far as this operation."""
    child = os.fork()
    if child == 0:
        crash_before(operation)
        WORK[work](archive, store)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, CRASHED), f"{work} before operation {operation} ended with {code}"
    return code == CRASHED


def check(work: str, archive: Archive, store: DirectoryStore) -> None:
    """Old or new, nothing half; and the next run ends where one without a crash ends."""
    held = texts(archive.new_reader("r", store=store).latest(), "conv-a")
    assert held in (["one", "two"], ["one", "two", "three"]), f"{work}: a reader sees {held}"
    again = archive.new_projector("again", store=store)
    again.run_once()
    generation = archive.new_reader("r", store=store).latest()
    assert texts(generation, "conv-a") == ["one", "two", "three"]
    kept = contents(generation)
    again.rebuild()
    assert contents(archive.new_reader("r", store=store).latest()) == kept
    archive.journal.clock.advance(seconds=LATER_S)
    collected(archive, store)
    assert list(store.path.rglob(".*")) == [], "what a crash left half made is swept"
    named = {pack_id for pack_id, _ in archive.new_reader("r", store=store).latest().layers.packs()}
    assert {entry.name.split("/")[1] for entry in store.list("packs/")} == named, "what nobody names is collected"
    if work == "purge":
        assert (left := prove_gone(store, [SECRET.encode()])) == [], f"what was erased is gone, not {left}"


def main() -> int:
    """Crash before each operation of one kind of work."""
    work, folder = sys.argv[1], Path(sys.argv[2])
    archive = prepared(folder, deltas=DELTA_FAN_IN - 2 if work == "merge" else 0)
    if work == "purge":
        archive.journal.erase("conv-b", 1)
        archive.journal.say("conv-b", erased("conv-b"))
    for operation in count(1):
        store = DirectoryStore(Path(shutil.copytree(folder / "store", folder / f"{work}-{operation}")))
        went_so_far = crashed(work, archive, store, operation=operation)
        check(work, archive, store)
        shutil.rmtree(store.path)
        if not went_so_far:
            print(operation - 1)
            return 0
    raise AssertionError("counting has no end")


if __name__ == "__main__":
    sys.exit(main())
