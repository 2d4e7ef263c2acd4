"""Arrow to JSON cells: exact, or not at all."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query_plane.cells import cells, date_text, json_rows, timestamp_text


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([2**53, 2**53 + 1, -(2**53) - 1, None], pa.int64()), [2**53, str(2**53 + 1), str(-(2**53) - 1), None]),
        (pa.array([2**64 - 1], pa.uint64()), [str(2**64 - 1)]),
        (pa.array([1, None], pa.int8()), [1, None]),
        (pa.array([1.5, float("nan"), float("inf"), -float("inf"), None]), [1.5, "NaN", "Infinity", "-Infinity", None]),
        (pa.array([1.1], pa.float32()), [1.1]),
        (pa.array([Decimal("0.10"), None], pa.decimal128(3, 2)), ["0.10", None]),
        (pa.array([Decimal("1E-10")], pa.decimal128(20, 10)), ["0.0000000001"]),
        (pa.array([b"\x00\xff", None]), ["AP8=", None]),
        (pa.array(["a", None]), ["a", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([None, None]), [None, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([[1, 2], None, []], pa.list_(pa.int32())), [[1, 2], None, []]),
        (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), [[1, 2], None]),
        (pa.array([{"a": 1, "b": "x"}, None]), [{"a": 1, "b": "x"}, None]),
        (pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())), [[["k", 1]], None, []]),
        (pa.array([[2**60]], pa.list_(pa.int64())), [[str(2**60)]]),
        (pa.array([0, 86_399_000_000, 86_400_000_000], pa.int64()).view(pa.time64("us")), ["00:00:00", "23:59:59", "24:00:00"]),
        (pa.array([2**31 - 1, -(2**31 - 1), 0], pa.int32()).view(pa.date32()), ["infinity", "-infinity", "1970-01-01"]),
        (pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("us")), ["infinity"]),
        (pa.array([0], pa.int64()).view(pa.timestamp("us", tz="Europe/Berlin")), ["1970-01-01T00:00:00Z"]),
        (pa.array([1], pa.int64()).view(pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001Z"]),
    ],
)  # fmt: skip
def test_a_cell_keeps_what_the_engine_said(array, expected):
    assert cells(array) == expected


def test_a_hugeint_is_a_number_where_that_is_exact():
    column = pa.array([Decimal(7), Decimal(2**53 + 1), None], pa.decimal128(38, 0))
    assert cells(column, "HUGEINT") == [7, str(2**53 + 1), None]
    assert cells(column, "DECIMAL(38,0)") == ["7", str(2**53 + 1), None]


def test_slices_of_nested_columns_keep_to_themselves():
    maps = pa.array([[("a", 1)], [("b", 2), ("c", 3)], None], pa.map_(pa.string(), pa.int32())).slice(1, 2)
    lists = pa.array([[1], [2, 3], None]).slice(1, 2)
    structs = pa.array([{"a": 1}, {"a": 2}]).slice(1, 1)
    assert (cells(maps), cells(lists), cells(structs)) == ([[["b", 2], ["c", 3]], None], [[2, 3], None], [{"a": 2}])


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))  # noqa: DTZ001 naive on purpose
def test_timestamps_agree_with_python_where_python_knows_them(moment):
    ticks = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001 naive on purpose
    assert datetime.fromisoformat(timestamp_text(ticks, "us")) == moment.replace(tzinfo=UTC)


def test_years_beyond_four_digits_have_a_sign():
    assert date_text(2_932_897) == "+10000-01-01"
    assert date_text(-719_529) == "-0001-12-31" or date_text(-719_529).startswith("-")


def test_rows_are_positional_and_strict_json():
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([float("nan")])], names=["a", "a"])
    assert json.loads(json_rows(batch, ["INTEGER", "DOUBLE"])) == [[1, "NaN"]]
    assert json_rows(batch.slice(0, 0), ["INTEGER", "DOUBLE"]) == b"[]"
