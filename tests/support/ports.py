"""Ports for a deployment that a test starts: below those that the kernel hands out by itself.

A port that was bound to 0 and let go can be handed to anybody's connection before the deployment takes it, and the one
beside it (the edge's) can be taken already. Here each process of a parallel run looks in a stretch of its own.
"""

import itertools
import os
import socket
from typing import Final

_FIRST: Final = 10_000
_STRETCH: Final = 100
_STRETCHES: Final = 200  # ends at 30,000: Linux hands out ports from 32,768 on

_offsets = itertools.cycle(range(0, _STRETCH, 2))


def free_pair() -> int:
    """A port N such that N + 1 is free as well."""
    begin = _FIRST + os.getpid() % _STRETCHES * _STRETCH
    for offset in itertools.islice(_offsets, _STRETCH // 2):
        if _is_free(begin + offset) and _is_free(begin + offset + 1):
            return begin + offset
    raise AssertionError(f"no two ports from {begin} on are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
