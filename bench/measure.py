"""What a bench measures: ours and a peer's time for the same work, in the same run, and their ratio.

Machines differ and this one is shared, so a ratio of two times taken one after the other on the same cores is what
stays comparable; the absolute figures stand beside it for orientation. The best of several rounds counts: noise only
ever adds.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One line of the table: rates in things per second, higher is better."""

    what: str
    unit: str
    ours: float
    peer: float
    peer_name: str
    note: str

    @property
    def ratio(self) -> float:
        """How many times the peer's rate ours is."""
        return self.ours / self.peer


def best_s(work: Callable[[], None], *, rounds: int = ROUNDS) -> float:
    """The shortest wall time of several rounds."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
