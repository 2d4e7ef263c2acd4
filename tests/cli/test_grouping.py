"""A group is as good as its appends one by one: nothing twice, nothing lost, whatever was there before."""

from pathlib import Path

import pytest

from facts import codec, events
from polyc.appending import Author
from polyc.cli.deployment import Deployment, opened
from polyc.cli.grouping import Group
from polyc.dataroot import DataRoot
from polyc.ids import uuid8, uuid8_bytes
from sources import Batch

PARTITIONS = ("conv-imp-a", "conv-imp-b")


def batch(partition: str, number: int, *, new_incarnation: bool = False) -> Batch:
    opening = events.ConversationOpened(
        id=uuid8(partition, str(number)), origin="codex", conversation_id=partition.removeprefix("conv-")
    )
    append_id = uuid8_bytes("append", partition, str(number))
    return Batch((codec.encode(opening),) * 2, append_id, opens=number == 0, new_incarnation=new_incarnation)


def add(group: Group, author: Author, partition: str, one: Batch) -> None:
    group.add(author, partition, one.drafts, append_id=one.append_id, new_incarnation=one.new_incarnation)


def append(deployment: Deployment, numbers: range, *, one_by_one: bool = False) -> None:
    author = deployment.author("importer")
    group = Group(deployment.journal, clock=deployment.clock, ids=deployment.ids)
    for number in numbers:
        for partition in PARTITIONS:
            one = batch(partition, number)
            if one_by_one:
                author.append(partition, one.drafts, append_id=one.append_id)
            else:
                add(group, author, partition, one)
    group.flush()
    group.flush()


@pytest.fixture
def deployment(tmp_path: Path):
    with opened(DataRoot(tmp_path / "root"), create=True) as deployment:
        yield deployment


def payloads(deployment: Deployment) -> list[list[bytes | None]]:
    return [[record.payload for record in deployment.journal.read(partition)] for partition in PARTITIONS]


def test_a_group_holds_what_one_by_one_would(deployment: Deployment, tmp_path: Path) -> None:
    append(deployment, range(5))
    with opened(DataRoot(tmp_path / "other"), create=True) as other:
        append(other, range(5), one_by_one=True)
        assert payloads(deployment) == payloads(other)
    assert len(payloads(deployment)[0]) == 10


@pytest.mark.parametrize("already", range(6))
def test_an_interrupted_import_goes_on_where_it_stood(deployment: Deployment, already: int) -> None:
    append(deployment, range(already), one_by_one=True)
    append(deployment, range(5))
    append(deployment, range(5))
    assert [len(of_partition) for of_partition in payloads(deployment)] == [10, 10]


def test_somebody_elses_append_in_between_loses_nothing(deployment: Deployment) -> None:
    author = deployment.author("importer")
    group = Group(deployment.journal, clock=deployment.clock, ids=deployment.ids)
    for partition in PARTITIONS:
        add(group, author, partition, batch(partition, 0))
    first = batch(PARTITIONS[1], 99)
    author.append(PARTITIONS[1], first.drafts, append_id=first.append_id)
    group.flush()
    assert [len(of_partition) for of_partition in payloads(deployment)] == [2, 4]


def test_a_rewritten_conversation_begins_anew(deployment: Deployment) -> None:
    append(deployment, range(2))
    group = Group(deployment.journal, clock=deployment.clock, ids=deployment.ids)
    author = deployment.author("importer")
    add(group, author, PARTITIONS[0], batch(PARTITIONS[0], 7, new_incarnation=True))
    add(group, author, PARTITIONS[0], batch(PARTITIONS[0], 8))
    flushed = group.flush()
    assert flushed[PARTITIONS[0]] == deployment.journal.head(PARTITIONS[0])
    assert [len(of_partition) for of_partition in payloads(deployment)] == [4, 4]
    heads = {head.partition: head for head in deployment.journal.partitions()}
    assert heads[PARTITIONS[0]].incarnation > heads[PARTITIONS[1]].incarnation
