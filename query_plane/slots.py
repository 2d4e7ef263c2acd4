"""Admission control: how many queries run, how many wait, and how many of them one subject may have.

Beyond a bound the answer is RESOURCE_EXHAUSTED at once: a queue that grows without one serves nobody.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from polyc.errors import RefusedError


class Slots:
    """One semaphore for all, one count a subject."""

    def __init__(self, *, running_max: int, waiting_max: int, per_subject_max: int) -> None:
        self._semaphore = asyncio.Semaphore(running_max)
        self._running_max = running_max
        self._waiting_max = waiting_max
        self._per_subject_max = per_subject_max
        self._held: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """How many queries run or wait now."""
        return self._held.total()

    @asynccontextmanager
    async def hold(self, subject: str) -> AsyncIterator[None]:
        """Hold a slot; RefusedError (resource_exhausted) when the subject or everybody has too many."""
        if self._held[subject] >= self._per_subject_max:
            raise RefusedError(
                f"{self._per_subject_max} statements of yours are running or waiting",
                code="resource_exhausted",
                hint="wait for one of them",
            )
        if self.held >= self._running_max + self._waiting_max:
            raise RefusedError("too many statements are waiting", code="resource_exhausted", hint="try again soon")
        self._held[subject] += 1
        try:
            async with self._semaphore:
                yield
        finally:
            self._held[subject] -= 1
            if not self._held[subject]:
                del self._held[subject]
