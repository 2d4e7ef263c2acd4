"""Appending: our journal (hash chain, signatures, signed checkpoint, fsync) against the eventsourcing library's SQLite.

The peer stores the same payloads durably, without digests, chain or signatures.
"""

import itertools
import tempfile
from pathlib import Path
from uuid import uuid4

from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from bench.deployment import embedded, payloads
from bench.measure import Measurement, best_s
from polyc.appending import Author, Draft
from polyc.signing import load_signer
from polyc.vocabulary import BY_KIND

APPENDS = 200


def measure() -> list[Measurement]:
    """Appends of 1 and of 64 events, each acknowledged before the next."""
    return [_append(batch) for batch in (1, 64)]


def _append(batch: int) -> Measurement:
    texts = payloads(APPENDS * batch)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with embedded(path / "ours") as deployment:
            signer = load_signer(deployment.root.keys / "harness.pem")
            author = Author(deployment.journal, signer, clock=deployment.clock, ids=deployment.ids)
            code = BY_KIND["message"].code
            rounds = itertools.count()

            def ours() -> None:
                partition = f"conv-bench-{next(rounds)}"
                for start in range(0, len(texts), batch):
                    author.append(partition, [Draft(code, text) for text in texts[start : start + batch]])

            ours_s = best_s(ours)
        store = SQLiteDatastore(str(path / "peer.sqlite"))
        recorder = SQLiteApplicationRecorder(store)
        recorder.create_table()

        def peer() -> None:
            name = uuid4()
            for start in range(0, len(texts), batch):
                chunk = texts[start : start + batch]
                recorder.insert_events([StoredEvent(name, start + i, "message", text) for i, text in enumerate(chunk)])

        peer_s = best_s(peer)
        store.close()
    return Measurement(
        what=f"append, {batch} event{'s' * (batch > 1)} an append",
        unit="events/s",
        ours=len(texts) / ours_s,
        peer=len(texts) / peer_s,
        peer_name="eventsourcing (SQLite)",
        note="ours adds digest, chain, author's signature, signed checkpoint",
    )
