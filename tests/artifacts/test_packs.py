"""A pack's bytes are a function of its rows and the layout: however the rows arrive, whoever writes them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifacts.layout import LayoutParameters
from artifacts.rowgroups import TableWriter
from artifacts.schema import arrow_schema, rows_to_arrow
from tests.support.counting_meaning import NOTES

LAYOUT = LayoutParameters(row_group_rows=8, row_group_text_bytes=200)


def rows_of(partition: str, sizes: list[int]) -> list[tuple[object, ...]]:
    return [(partition, "i", position, "x" * size, size) for position, size in enumerate(sizes)]


def written(path: Path, parts: list[list[tuple[object, ...]]], *, arrow: list[bool]) -> tuple[bytes, tuple[int, ...]]:
    writer = TableWriter(path, NOTES, layout=LAYOUT)
    for part, as_arrow in zip(parts, arrow, strict=True):
        if as_arrow:
            whole = rows_to_arrow([*part, *part], arrow_schema(NOTES))
            halves = [whole.slice(0, len(part) // 2), whole.slice(len(part) // 2, len(part) - len(part) // 2)]
            writer.add_table(pa.concat_tables(halves))
        else:
            writer.add_rows(part)
    described = writer.close()
    return path.read_bytes(), described.row_groups


PARTS = st.lists(st.lists(st.integers(0, 150), min_size=1, max_size=12), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(sizes=PARTS, data=st.data())
def test_equal_rows_give_equal_bytes_however_they_arrive(tmp_path_factory, sizes: list[list[int]], data) -> None:
    folder = tmp_path_factory.mktemp("pack")
    parts = [rows_of(f"conv-{number:02d}", part) for number, part in enumerate(sizes)]
    arrow = data.draw(st.lists(st.booleans(), min_size=len(parts), max_size=len(parts)))
    assert written(folder / "a", parts, arrow=[False] * len(parts)) == written(folder / "b", parts, arrow=arrow)


@settings(max_examples=60, deadline=None)
@given(sizes=PARTS)
def test_a_row_group_holds_whole_conversations_or_parts_of_one_large_one(tmp_path_factory, sizes) -> None:
    path = tmp_path_factory.mktemp("pack") / "t"
    _, groups = written(path, [rows_of(f"conv-{n:02d}", p) for n, p in enumerate(sizes)], arrow=[False] * len(sizes))
    file = pq.ParquetFile(path)
    seen: dict[str, set[int]] = {}
    for number, rows in enumerate(groups):
        table = file.read_row_group(number, columns=["partition", "size"])
        assert table.num_rows == rows
        names = table.column("partition").to_pylist()
        for name in names:
            seen.setdefault(name, set()).add(number)
        if len(set(names)) > 1:
            assert rows <= LAYOUT.row_group_rows
            assert sum(table.column("size").to_pylist()) <= LAYOUT.row_group_text_bytes
    for name, numbers in seen.items():
        own = sizes[int(name.removeprefix("conv-"))]
        larger_than_a_group = len(own) > LAYOUT.row_group_rows or sum(own) + 13 * len(own) > LAYOUT.row_group_text_bytes
        assert len(numbers) == 1 or larger_than_a_group


def test_another_layout_gives_other_bytes(tmp_path: Path) -> None:
    parts = [rows_of("conv-a", [5] * 20), rows_of("conv-b", [5] * 20)]
    first, _ = written(tmp_path / "a", parts, arrow=[False, False])
    writer = TableWriter(tmp_path / "b", NOTES, layout=LayoutParameters())
    for part in parts:
        writer.add_rows(part)
    writer.close()
    assert first != (tmp_path / "b").read_bytes()


def test_footers_hold_no_text_but_the_partitions(tmp_path: Path) -> None:
    written(tmp_path / "a", [rows_of("conv-a", [9, 3])], arrow=[False])
    footer = pq.read_metadata(tmp_path / "a")
    group = footer.row_group(0)
    statistics = {group.column(i).path_in_schema: group.column(i).statistics for i in range(group.num_columns)}
    assert statistics["text"] is None
    assert statistics["partition"].min == statistics["partition"].max == "conv-a"
    assert statistics["size"].max == 9
    assert footer.metadata is None


@pytest.mark.parametrize("name", ["position", "size"])
def test_integers_are_delta_packed_and_text_is_not_in_a_dictionary(tmp_path: Path, name: str) -> None:
    written(tmp_path / "a", [rows_of("conv-a", [9, 3])], arrow=[False])
    group = pq.read_metadata(tmp_path / "a").row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in columns[name].encodings
    assert not columns["text"].has_dictionary_page
    assert columns["partition"].has_dictionary_page
