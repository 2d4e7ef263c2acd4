"""The journal: durable appends by many writers, verification, and reads, each against a bare peer in the same run.

`python -m bench.journal` prints three tables; `measure()` is the small part that `make bench` runs.

1. Appends at 1, 8, 64 writers x 1, 10, 100, 1000 events, against the eventsourcing library on SQLite: both in WAL mode
   with synchronous=FULL (asserted), threads of one process, the same payloads, acknowledged one append at a time; ours
   also hashed, chained, signed by its author and sealed by a signed checkpoint.
2. `verify` at V1 against a loop of the same hashes over the same rows read from the same store; V2 against a loop of
   bare Ed25519 verification of the same signatures, by OpenSSL (`cryptography`) and by libsodium, which verify itself
   uses; all by number of processes.
3. CPU time of reading one 300-event partition among many.
"""

import base64
import hashlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import apsw
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore
from nacl.bindings import crypto_sign_open
from zstandard import ZstdDecompressor

from bench.measure import ROUNDS, Measurement
from journal.body import COMPRESSED
from journal.boot import create_deployment, open_embedded
from journal.store import SqliteJournal
from journal.verify import Level, verify
from polyc import entry
from polyc.appending import Author, Draft, Head, sign_append
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.entry import HEADER_FIXED_SIZE_BYTES
from polyc.ids import SystemIds
from polyc.signing import load_signer
from polyc.vocabulary import BY_KIND

MESSAGE = BY_KIND["message"].code
PAYLOAD = b'{"type":"message","text":"' + b"x" * 570 + b'"}'
WRITERS = (1, 8, 64)
EVENTS = (1, 10, 100, 1000)
SECONDS = 2.0


def measure() -> list[Measurement]:
    """Two points of the append matrix and the two verification ratios."""
    found = []
    for writers, events in ((8, 10), (64, 1)):
        ours, peer = append_point(writers, events, seconds=0.5)
        found.append(
            Measurement(
                what=f"append, {writers} writers x {events} events",
                unit="events/s",
                ours=ours,
                peer=peer,
                peer_name="eventsourcing (SQLite)",
                note="ours hashed, chained, signed, sealed",
            )
        )
    return found + verify_points(appends=400, processes=(1,))


def append_point(writers: int, events: int, *, seconds: float = SECONDS) -> tuple[float, float]:
    """Events a second, ours and the peer's: the best of several rounds, taken in turns, for the disk changes its mood."""
    ours, peer = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            ours.append(_ours(Path(folder) / "ours", writers, events, seconds / ROUNDS))
            peer.append(_peer(Path(folder) / "peer.sqlite", writers, events, seconds / ROUNDS))
    return max(ours), max(peer)


def _ours(folder: Path, writers: int, events: int, seconds: float) -> float:
    root, clock, ids = DataRoot(folder), SystemClock(), SystemIds()
    create_deployment(root, clock=clock, ids=ids)
    signer = load_signer(root.keys / "harness.pem")
    drafts = [Draft(MESSAGE, PAYLOAD)] * events
    with open_embedded(root, clock=clock, ids=ids) as journal:

        def append(writer: int) -> Callable[[], None]:
            # As a real author does: it knows its head and signs on it; only a lost race would ask again.
            partition = f"conv-{writer}"
            state: list[Head | None] = [None]

            def once() -> None:
                head = state[0]
                if head is None:
                    incarnation = ids.token(16)
                    head = Head(partition, incarnation, 0, entry.genesis(journal.origin, partition, incarnation))
                signed = sign_append(
                    drafts,
                    head=head,
                    origin=journal.origin,
                    signer=signer,
                    recorded_at_us=clock.now_us(),
                    ids=ids,
                )
                state[0] = journal.append(signed).head

            return once

        return _rate([append(i) for i in range(writers)], events, seconds)


def _peer(path: Path, writers: int, events: int, seconds: float) -> float:
    store = SQLiteDatastore(str(path), lock_timeout=60, pool_size=writers, max_overflow=writers)
    recorder = SQLiteApplicationRecorder(store)
    recorder.create_table()
    with store.transaction(commit=False) as cursor:
        cursor.execute("PRAGMA synchronous")
        assert cursor.fetchone()[0] == 2, "the peer is as durable as we are: FULL"
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone()[0] == "wal"

    def append() -> Callable[[], None]:
        name, version = uuid4(), [0]

        def once() -> None:
            start = version[0]
            recorder.insert_events([StoredEvent(name, start + i, "message", PAYLOAD) for i in range(events)])
            version[0] = start + events

        return once

    rate = _rate([append() for _ in range(writers)], events, seconds)
    store.close()
    return rate


def _rate(appends: list[Callable[[], None]], events: int, seconds: float) -> float:
    counts, end = [0] * len(appends), [0.0]
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            while time.perf_counter() < end[0]:
                appends[i]()
                counts[i] += 1
        except BaseException as error:  # a failed writer must fail the bench, not slow it
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(appends))]
    began = time.perf_counter()
    end[0] = began + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sum(counts) * events / (time.perf_counter() - began)


def filled(folder: Path, *, appends: int, events: int = 64, partitions: int = 50) -> DataRoot:
    """A deployment with `appends` appends of `events` events."""
    root, clock, ids = DataRoot(folder), SystemClock(), SystemIds()
    create_deployment(root, clock=clock, ids=ids)
    author_key = load_signer(root.keys / "harness.pem")
    with open_embedded(root, clock=clock, ids=ids) as journal:
        author = Author(journal, author_key, clock=clock, ids=ids)
        for i in range(appends):
            author.append(f"conv-{i % partitions}", [Draft(MESSAGE, PAYLOAD)] * events)
    return root


def verify_points(*, appends: int, processes: tuple[int, ...]) -> list[Measurement]:
    """V1 and V2 by number of processes, each against its bare loop in one process."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        root = filled(Path(folder) / "v1", appends=appends)
        bare, *ours = _best_in_turns(
            partial(_bare_hashes, root), *[partial(_verified, root, "V1", count) for count in processes]
        )
        entries = appends * 64
        found += [
            _ratio(f"verify V1, {count} process(es)", "entries/s", entries / took, entries / bare, "the bare hashes")
            for count, took in zip(processes, ours, strict=True)
        ]
        root = filled(Path(folder) / "v2", appends=appends * 4, events=1)
        openssl, libsodium, *ours = _best_in_turns(
            partial(_bare_signatures, root, _openssl),
            partial(_bare_signatures, root, _libsodium),
            *[partial(_verified, root, "V2", count) for count in processes],
        )
        for count, took in zip(processes, ours, strict=True):
            for library, bare in (("OpenSSL", openssl), ("libsodium", libsodium)):
                name = f"bare Ed25519 verification ({library})"
                rate = appends * 4 / took
                found.append(_ratio(f"verify V2, {count} process(es)", "appends/s", rate, appends * 4 / bare, name))
    return found


def _bare_hashes(root: DataRoot) -> None:
    """The hashes that V1 must make (digest, leaf, tree) over the same appends from the same store, and nothing else."""
    connection = apsw.Connection(str(root.journal_file), flags=apsw.SQLITE_OPEN_READONLY)
    sha256, unpack = hashlib.sha256, ZstdDecompressor().decompress
    node = b"\x00" * 32
    query = "SELECT n, form, body FROM append WHERE pid = ? ORDER BY position"
    for (pid,) in connection.execute("SELECT pid FROM part ORDER BY pid").fetchall():
        for count, form, body in connection.execute(query, (pid,)):
            content = unpack(body) if form == COMPRESSED else body
            size = HEADER_FIXED_SIZE_BYTES + content[HEADER_FIXED_SIZE_BYTES - 1]
            at = size * count
            for start in range(0, at, size):
                header = content[start : start + size]
                end = at + 16 + int.from_bytes(header[144:148], "big")
                sha256(content[at:end]).digest()
                leaf = sha256(b"\x00" + header).digest()
                node = sha256(b"\x01" + node + leaf).digest()
                at = end
    connection.close()


def _openssl(public_key: bytes) -> Callable[[bytes, bytes], object]:
    return Ed25519PublicKey.from_public_bytes(public_key).verify


def _libsodium(public_key: bytes) -> Callable[[bytes, bytes], object]:
    return lambda signature, preimage: crypto_sign_open(signature + preimage, public_key)


def _bare_signatures(root: DataRoot, check: Callable[[bytes], Callable[[bytes, bytes], object]]) -> None:
    """Ed25519 verification of every append's signature, the bytes at hand."""
    policy = root.policy()
    connection = apsw.Connection(str(root.journal_file), flags=apsw.SQLITE_OPEN_READONLY)
    query = "SELECT body, sig FROM append WHERE n = 1 AND form = 0"
    author_verify = check(load_signer(root.keys / "harness.pem").public_key)
    log_verify = check(bytes.fromhex(policy.log_key))
    for body, signature in connection.execute(query):
        header = body[: HEADER_FIXED_SIZE_BYTES + body[HEADER_FIXED_SIZE_BYTES - 1]]
        author_verify(signature, entry.append_preimage(policy.origin, entry.leaf_hash(header)))
    for (text,) in connection.execute("SELECT note FROM checkpoint"):
        body, _blank, line = text.rpartition("\n\n")
        log_verify(base64.b64decode(line.split(" ")[2])[4:], (body + "\n").encode())
    connection.close()


def read_point(*, partitions: int) -> float:
    """CPU milliseconds to read one 300-event partition among `partitions`."""
    with tempfile.TemporaryDirectory() as folder:
        root, clock, ids = DataRoot(Path(folder)), SystemClock(), SystemIds()
        create_deployment(root, clock=clock, ids=ids)
        signer = load_signer(root.keys / "harness.pem")
        policy = root.policy()
        with SqliteJournal.open(
            root.journal_file,
            origin=policy.origin,
            root_public_key=bytes.fromhex(policy.root_key),
            log_signer=load_signer(root.keys / "log.pem"),
            clock=clock,
            ids=ids,
            opens_per_s=1e6,  # so many are opened at once in no deployment
        ) as journal:
            batch = []
            for i in range(partitions):
                name, incarnation = f"conv-{i}", ids.token(16)
                head = Head(name, incarnation, 0, entry.genesis(journal.origin, name, incarnation))
                drafts = [Draft(MESSAGE, b"x")] * (300 if i == partitions // 2 else 2)
                batch.append(
                    sign_append(
                        drafts,
                        head=head,
                        origin=journal.origin,
                        signer=signer,
                        recorded_at_us=clock.now_us(),
                        ids=ids,
                    )
                )
                if len(batch) == 256:
                    journal.append_many(batch)
                    batch = []
            if batch:
                journal.append_many(batch)
            name = f"conv-{partitions // 2}"
            samples = []
            for _ in range(25):
                began = time.process_time()
                assert sum(1 for _ in journal.read(name)) == 300
                samples.append(time.process_time() - began)
            return min(samples) * 1000


def _verified(root: DataRoot, level: Level, processes: int) -> None:
    assert verify(root, level=level, processes=processes).ok


def _best_in_turns(*works: Callable[[], None], rounds: int = 5) -> list[float]:
    """The shortest time of each, in seconds; they take turns, so that a slow minute of the machine is everybody's."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, taken in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            taken.append(time.perf_counter() - began)
    return list(map(min, times))


def _ratio(what: str, unit: str, ours: float, peer: float, peer_name: str) -> Measurement:
    return Measurement(what=what, unit=unit, ours=ours, peer=peer, peer_name=peer_name, note="")


def main() -> None:
    """Print everything."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    print("appends, events/s\nwriters  events      ours  eventsourcing  ratio")
    for writers in WRITERS:
        for events in EVENTS:
            ours, peer = append_point(writers, events, seconds=seconds)
            print(f"{writers:7d} {events:7d} {ours:9.0f} {peer:14.0f} {ours / peer:6.2f}", flush=True)
    for found in verify_points(appends=1600, processes=(1, os.cpu_count() or 1)):
        print(
            f"{found.what}: {found.ours:.0f} {found.unit}, {found.peer_name} {found.peer:.0f}: {found.ours / found.peer:.2f}x"
        )
    print(f"read of one 300-event partition among 100,000: {read_point(partitions=100_000):.2f} ms CPU")


if __name__ == "__main__":
    main()
