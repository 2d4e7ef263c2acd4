"""Folds that follow mode keeps between ticks, so that a long conversation's next turn is not a replay of all of it.

An optimisation and never evidence: the content digest is compared as after a full replay. Whatever could make an
older record mean something else (an erasure, a moved key, a fault, another incarnation) drops the fold.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from facts.fold import Fold
from journal.port import PartitionHead
from polyc.keyring import KEYS_PARTITION
from polyc.limits import FOLDS_KEPT_MAX
from polyc.vocabulary import BY_KIND

ERASED: Final = BY_KIND["erased"].code


class LiveFold(msgspec.Struct, frozen=True, kw_only=True):
    """A fold that has taken the records of an incarnation through `position`."""

    fold: Fold
    incarnation: bytes
    position: int
    cohort: str
    erased: int


class LiveFolds:
    """The most recently used folds, at most `kept`."""

    def __init__(self, *, kept: int = FOLDS_KEPT_MAX) -> None:
        self._kept = kept
        self._folds: OrderedDict[str, LiveFold] = OrderedDict()

    def take(self, head: PartitionHead) -> LiveFold | None:
        """The fold to go on with, handed out once; None when the partition must be read from its start."""
        found = self._folds.pop(head.partition, None)
        fits = found is not None and found.incarnation == head.incarnation and found.position <= head.position
        return found if fits else None

    def keep(self, partition: str, live: LiveFold) -> None:
        """Remember the fold; the least recently used one makes room."""
        self._folds[partition] = live
        if len(self._folds) > self._kept:
            self._folds.popitem(last=False)

    def moved(self, heads: tuple[PartitionHead, ...]) -> None:
        """Forget everything when the log's keys moved: trust is part of what a fold holds."""
        if any(head.partition == KEYS_PARTITION for head in heads):
            self._folds.clear()

    def clear(self) -> None:
        """Forget everything: an erasure may have reached any of them."""
        self._folds.clear()
