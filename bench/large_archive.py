"""An archive of ten million usage rows without ten million events: a pack written and published as a projector does.

Two thousand conversations of five thousand rows each, beside the two real ones of the tests' deployment. Everything
after the projector is real: index, manifest, signature, admission, views, workers.
"""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from artifacts.index import APPEND, KEEP, IndexRow
from artifacts.layout import LayoutParameters, pack_name
from artifacts.pack import PackWriter
from artifacts.reader import Reader
from artifacts.schema import arrow_schema
from artifacts.store import DirectoryStore
from facts.catalog import TABLES
from polyc.published import EdgeTrust
from polyc.signing import load_signer
from projector.commit import commit, following
from query_plane.names import spec
from tests.query_plane.deployment import Deployment

ROWS_A_CONVERSATION = 5_000
TABLE = "usage"


def name_of(number: int) -> str:
    """The partition of a planted conversation."""
    return f"conv-planted-{number:06d}"


def plant(deployment: Deployment, *, rows: int) -> list[str]:
    """Publish a generation that holds this many usage rows more; returns the table's files."""
    store, root = DirectoryStore(deployment.root.artifacts), deployment.root
    trust = EdgeTrust(root.published, root.policy(), clock=deployment.clock)
    reader = Reader(store, keys=lambda: trust.bundle().keys, clock=deployment.clock, ids=deployment.ids)
    current = reader.latest()
    with store.stage() as folder:
        pack_id = _write(folder, rows // ROWS_A_CONVERSATION, layout=current.manifest.body.layout)
        store.publish(folder, pack_name(pack_id))
    body = following(current.manifest, deltas=(*current.manifest.body.deltas, pack_id))
    commit(store, body, signer=load_signer(root.keys / "projector.pem"), clock=deployment.clock)
    files = list(reader.latest().fleet_sources(spec(TABLE)).paths)
    reader.release()
    return files


def _write(folder: Path, conversations: int, *, layout: LayoutParameters) -> str:
    writer = PackWriter(folder, [spec(name) for name in TABLES], layout=layout)
    for number in range(conversations):
        row = IndexRow(
            partition=name_of(number),
            cohort="2026-W44",
            row_mode=APPEND,
            state_mode=KEEP,
            incarnation="planted",
            from_position=1,
            to_position=ROWS_A_CONVERSATION,
            head=bytes(32),
            content=bytes(32),
            state=bytes(32),
            erased=0,
            counts={TABLE: ROWS_A_CONVERSATION},
        )
        writer.add(row, {TABLE: _usage(number)})
    return writer.finish("delta")[0]


def _usage(number: int) -> pa.Table:
    schema, count = arrow_schema(spec(TABLE)), ROWS_A_CONVERSATION
    known = {
        "partition": [name_of(number)] * count,
        "source_incarnation": ["planted"] * count,
        "position": range(1, count + 1),
        "turn_id": [f"t{i // 10}" for i in range(count)],
        "recorded_at": [datetime(2026, 11, 1, tzinfo=UTC)] * count,
        "call_id": [f"c{number}-{i}" for i in range(count)],
        "model": [f"model-{(number + i) % 7}" for i in range(count)],
        "input_tokens": [(number * 31 + i * 37) % 4000 for i in range(count)],
        "output_tokens": [(number + i * 11) % 900 for i in range(count)],
    }
    columns = [
        pa.array(list(known[field.name]), field.type) if field.name in known else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
