"""Cosignatures in the store: what witnesses signed of this log's checkpoints, kept as the lines they sent."""

from collections.abc import Sequence
from typing import Final

import apsw

from journal.database import row, rows
from polyc import note
from polyc.errors import RefusedError

COSIGNATURES_PER_CHECKPOINT_MAX: Final = 32


def store(connection: apsw.Connection, size: int, lines: Sequence[str]) -> None:
    """Keep the lines under the checkpoint of this size; a witness's later line takes the place of its earlier one."""
    if row(connection, "SELECT 1 FROM checkpoint WHERE size = ?", (size,)) is None:
        raise RefusedError(f"there is no checkpoint of size {size}", code="not_found")
    stored = [line for (line,) in rows(connection, "SELECT line FROM cosignature WHERE size = ?", (size,))]
    kept = {
        (signature.name, signature.key_id): str(signature)
        for line in (*stored, *lines)
        for signature in note.parse_signatures(line, place="cosignature")
    }
    if len(kept) > COSIGNATURES_PER_CHECKPOINT_MAX:
        raise RefusedError("too many cosignatures of one checkpoint", code="resource_exhausted")
    with connection:
        connection.execute("DELETE FROM cosignature WHERE size = ?", (size,))
        connection.executemany("INSERT INTO cosignature VALUES (?, ?)", [(size, line) for line in kept.values()])
