"""Whether more of a file may come."""

from enum import IntEnum


class Stillness(IntEnum):
    """Whether more of a file may come."""

    GROWING = 0  # somebody may be writing it
    STILL = 1  # nothing came for five minutes: an answer at the end is the end of its turn
    FINAL = 2  # the caller says so, or it is an export: what stands after the last end is told as well
