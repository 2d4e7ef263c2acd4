"""How fast something may happen: a token bucket over the monotonic clock."""

from polyc.clock import Clock


class Pace:
    """Lets `burst` through at once and `per_s` a second on average."""

    def __init__(self, clock: Clock, *, per_s: float, burst: int) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._left = float(burst)
        self._at_s = clock.monotonic_s()

    def take(self) -> bool:
        """Whether one more may happen now; if so it counts."""
        now_s = self._clock.monotonic_s()
        self._left = min(self._burst, self._left + max(0.0, now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
