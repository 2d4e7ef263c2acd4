"""What the projector hands over: the rows of one partition that a tick publishes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec


class PartitionChange(msgspec.Struct, frozen=True, kw_only=True):
    """The new rows of a partition, by table, as tuples in the order of `facts.catalog`; other tables are ignored.

    `mode` append: rows of turns that were not published before. replace: all rows that count from now on (none = the
    partition is gone). `erased`: what older packs hold of it must not only be dead but gone from the files.
    """

    partition: str
    incarnation: str
    mode: Literal["append", "replace"]
    to_position: int
    rows: Mapping[str, Sequence[tuple[Any, ...]]]
    erased: bool = False
