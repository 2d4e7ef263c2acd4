"""Replaying: verified reading and folding of a conversation against the eventsourcing library's plain reading."""

import tempfile
from pathlib import Path
from uuid import uuid4

from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from bench.deployment import embedded, payloads
from bench.measure import Measurement, best_s
from facts.partition import open_fold
from facts.trust import Trust
from polyc.appending import Author, Draft
from polyc.signing import load_signer
from polyc.vocabulary import BY_KIND

EVENTS = 20_000
PARTITION = "conv-bench"


def measure() -> list[Measurement]:
    """Reading with every check, and reading with every check and folding."""
    texts = payloads(EVENTS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        store = SQLiteDatastore(str(path / "peer.sqlite"))
        recorder = SQLiteApplicationRecorder(store)
        recorder.create_table()
        name = uuid4()
        recorder.insert_events([StoredEvent(name, i, "message", text) for i, text in enumerate(texts)])

        def peer() -> None:
            assert sum(1 for _ in recorder.select_events(name)) == EVENTS

        peer_s = best_s(peer)
        store.close()
        with embedded(path / "ours") as deployment:
            journal = deployment.journal
            signer = load_signer(deployment.root.keys / "harness.pem")
            author = Author(journal, signer, clock=deployment.clock, ids=deployment.ids)
            code = BY_KIND["message"].code
            for start in range(0, EVENTS, 1000):
                author.append(PARTITION, [Draft(code, text) for text in texts[start : start + 1000]])
            trust = Trust(keys=journal.keyring())

            def read() -> None:
                assert sum(1 for _ in journal.read(PARTITION)) == EVENTS

            def fold() -> None:
                folding = open_fold(PARTITION, trust)
                for record in journal.read(PARTITION):
                    folding.apply(record)
                folding.rows()

            read_s, fold_s = best_s(read), best_s(fold)
    name = "eventsourcing (SQLite)"
    return [
        Measurement(
            what="read a conversation",
            unit="events/s",
            ours=EVENTS / read_s,
            peer=EVENTS / peer_s,
            peer_name=name,
            note="ours checks digest, chain, position and order while it reads",
        ),
        Measurement(
            what="read and fold a conversation",
            unit="events/s",
            ours=EVENTS / fold_s,
            peer=EVENTS / peer_s,
            peer_name=name,
            note="ours also decodes and folds; the peer only reads",
        ),
    ]
