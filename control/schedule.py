"""When a routine runs: `every 15m`, `every 2h`, `every 90s`, or `daily 07:30` (UTC). Pure."""

import re
from typing import Final

from polyc.errors import RefusedError
from polyc.limits import ROUTINE_PERIOD_S_MIN

_EVERY: Final = re.compile(r"every ([1-9][0-9]{0,5})([smhd])")
_DAILY: Final = re.compile(r"daily ([01][0-9]|2[0-3]):([0-5][0-9])")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DAY_S: Final = 86_400


def next_run_s(schedule: str, *, after_s: int) -> int:
    """The first second after `after_s` at which the schedule is due.

    >>> next_run_s("every 15m", after_s=1000), next_run_s("daily 00:01", after_s=60)
    (1900, 86460)
    """
    every = _EVERY.fullmatch(schedule)
    if every is not None:
        period_s = int(every[1]) * _UNIT_S[every[2]]
        if period_s >= ROUTINE_PERIOD_S_MIN:
            return after_s + period_s
    daily = _DAILY.fullmatch(schedule)
    if daily is not None:
        at_s = int(daily[1]) * 3600 + int(daily[2]) * 60
        today_s = after_s - after_s % _DAY_S + at_s
        return today_s if today_s > after_s else today_s + _DAY_S
    raise RefusedError("not a schedule", hint="every 15m, every 2h (at least a minute), daily 07:30 (UTC)")
