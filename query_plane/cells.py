"""Arrow columns to JSON cells: exact, or not at all (query-plane.md, "Frames and transport").

Rules: integers beyond ±2^53 and decimals are text (scale kept: `0.10`); NaN and infinities are "NaN", "Infinity" and
"-Infinity"; times are RFC 3339 in UTC with Z, with 0, 3, 6 or 9 digits of a second as needed, `infinity` and
`-infinity` by name and years beyond 9999 with a sign; bytes are base64; maps are lists of pairs.

Works on the raw integers of Arrow, never on Python's datetime, which knows neither year 10000 nor 24:00.
"""

import base64
import math
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Cell = Any  # None, bool, int, float, str, list or dict: what JSON can say

EXACT_INTEGER_MAX: Final = 2**53
_DAYS_INFINITE: Final = 2**31 - 1
_TICKS_INFINITE: Final = 2**63 - 1
_UNITS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SECONDS_PER_DAY: Final = 86_400

_encode: Final = msgspec.json.Encoder().encode


def json_rows(batch: pa.RecordBatch, types: list[str]) -> bytes:
    """The JSON text of a list of rows; `types` are the engine's names of the columns' types."""
    if batch.num_columns == 0:
        return _encode([[] for _ in range(batch.num_rows)])
    columns = [cells(column, type_) for column, type_ in zip(batch.columns, types, strict=True)]
    return _encode(list(zip(*columns, strict=True)))


def cells(array: pa.Array, type_name: str = "") -> list[Cell]:
    """The cells of a column."""
    type_ = array.type
    if pt.is_dictionary(type_):
        return cells(array.dictionary_decode(), type_name)
    if pt.is_integer(type_):
        return _integers(array)
    if pt.is_floating(type_):
        return _floats(array)
    if pt.is_decimal(type_):
        return _decimals(array, as_integers=type_name == "HUGEINT")
    if pt.is_binary(type_) or pt.is_large_binary(type_):
        return [None if v is None else base64.b64encode(v).decode("ascii") for v in array.to_pylist()]
    if pt.is_temporal(type_):
        return _times(array)
    if pt.is_nested(type_):
        return _nested(array)
    values: list[Cell] = array.to_pylist()  # null, boolean, text
    return values


def timestamp_text(ticks: int, unit: str) -> str:
    """RFC 3339 of ticks since 1970.

    >>> timestamp_text(-1, "s"), timestamp_text(1_500_000, "us"), timestamp_text(253402300800000, "ms")
    ('1969-12-31T23:59:59Z', '1970-01-01T00:00:01.500Z', '+10000-01-01T00:00:00Z')
    """
    if abs(ticks) == _TICKS_INFINITE:
        return "infinity" if ticks > 0 else "-infinity"
    days, rest = divmod(ticks, _SECONDS_PER_DAY * _UNITS[unit])
    return f"{date_text(days)}T{time_text(rest, unit)}Z"


@lru_cache(maxsize=4096)
def date_text(days: int) -> str:
    """The proleptic Gregorian date of days since 1970.

    >>> date_text(0), date_text(2932897), date_text(-719893)
    ('1970-01-01', '+10000-01-01', '-0001-01-01')
    """
    if abs(days) == _DAYS_INFINITE:
        return "infinity" if days > 0 else "-infinity"
    # Days to a civil date: eras of 400 years that begin on 1 March (H. Hinnant, "chrono-Compatible Date Algorithms").
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    sign = "" if 0 <= year <= 9999 else "+" if year > 0 else "-"
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def time_text(ticks: int, unit: str) -> str:
    """A time of day; 24:00:00 is one.

    >>> time_text(86_400_000_000, "us"), time_text(1, "us")
    ('24:00:00', '00:00:00.000001')
    """
    seconds, fraction = divmod(ticks, _UNITS[unit])
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    if fraction == 0:
        return text
    digits = f"{fraction * (1_000_000_000 // _UNITS[unit]):09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}"


def _integers(array: pa.Array) -> list[Cell]:
    values: list[Cell] = array.to_pylist()
    if array.type.bit_width < 64:
        return values
    extremes = pc.min_max(array).as_py()
    if extremes["min"] is None or (extremes["max"] <= EXACT_INTEGER_MAX and extremes["min"] >= -EXACT_INTEGER_MAX):
        return values
    return [_integer(value) for value in values]


def _integer(value: int | None) -> Cell:
    return value if value is None or abs(value) <= EXACT_INTEGER_MAX else str(value)


def _floats(array: pa.Array) -> list[Cell]:
    if array.type.bit_width < 64:
        values: list[Cell] = [None if text is None else float(text) for text in pc.cast(array, pa.string()).to_pylist()]
    else:
        values = array.to_pylist()
    if pc.all(pc.is_finite(array)).as_py() is False:
        return [_float(value) for value in values]
    return values


def _float(value: float | None) -> Cell:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimals(array: pa.Array, *, as_integers: bool) -> list[Cell]:
    if as_integers:
        return [None if value is None else _integer(int(value)) for value in array.to_pylist()]
    return [None if value is None else format(value, "f") for value in array.to_pylist()]


def _times(array: pa.Array) -> list[Cell]:
    type_ = array.type
    if pt.is_date32(type_):
        return [None if days is None else date_text(days) for days in array.cast(pa.int32()).to_pylist()]
    if pt.is_timestamp(type_):
        raw = array.cast(pa.timestamp(type_.unit)) if type_.tz else array
        ticks = raw.view(pa.int64()).to_pylist()
        return [None if value is None else timestamp_text(value, type_.unit) for value in ticks]
    if pt.is_time(type_):
        width = pa.int64() if pt.is_time64(type_) else pa.int32()
        return [None if value is None else time_text(value, type_.unit) for value in array.view(width).to_pylist()]
    raise AssertionError(f"the projection makes text of {type_}")


def _nested(array: pa.Array) -> list[Cell]:
    type_ = array.type
    if pt.is_struct(type_):
        names = [type_.field(i).name for i in range(type_.num_fields)]
        fields = [cells(field) for field in array.flatten()]
        rows = [dict(zip(names, values, strict=True)) for values in zip(*fields, strict=True)]
        valid = array.is_valid().to_pylist()
        return [row if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]
    valid = array.is_valid().to_pylist()
    if pt.is_map(type_):
        offsets = array.offsets.to_pylist()  # absolute: a sliced array keeps its neighbours' keys and items
        used = slice(offsets[0], offsets[-1])
        pairs = [list(pair) for pair in zip(cells(array.keys[used]), cells(array.items[used]), strict=True)]
        spans = [(start - offsets[0], end - offsets[0]) for start, end in pairwise(offsets)]
        return [pairs[slice(*span)] if is_valid else None for span, is_valid in zip(spans, valid, strict=True)]
    if pt.is_fixed_size_list(type_):
        return _cut(cells(array.flatten()), [type_.list_size if is_valid else None for is_valid in valid])
    return _cut(cells(array.flatten()), array.value_lengths().to_pylist())


def _cut(values: list[Cell], lengths: list[int | None]) -> list[Cell]:
    """Give each row its share of the flattened values; a row without a length is null."""
    rows: list[Cell] = []
    start = 0
    for length in lengths:
        if length is None:
            rows.append(None)
            continue
        rows.append(values[start : start + length])
        start += length
    return rows
