"""A poison event stops its own partition, at a named place; every other partition goes on, and nothing is guessed."""

import gc

import pytest

from facts.partition import open_fold, resume_fold
from facts.payments import Spending
from polyc.errors import CorruptError
from polyc.vocabulary import BY_KIND
from tests.facts.journal import TRUST, Journal
from tests.facts.payment import jws, paid, paying, trust

POISON = b'{"type":"turn_complete"}'
MARKER = BY_KIND["turn_complete"].code


def poisoned(partition="conv-a"):
    """A paying conversation, then poison, then a payment that nobody may count or pass over."""
    journal = paying(partition)
    place = journal.raw(MARKER, POISON).position
    return paid(journal, jws()), place


def test_the_fold_stands_before_the_poison_and_takes_nothing_beyond():
    journal, place = poisoned()
    fold, good = open_fold("conv-a", trust()), open_fold("conv-a", trust())
    good.apply_all(journal.records[: place - 1])
    for rest in (journal.records, journal.records[place - 1 :], journal.records):
        with pytest.raises(CorruptError, match=f"conv-a@{place}"):
            fold.apply_all(rest)
        assert fold.position == place - 1
        assert fold.rows() == good.rows()
    with pytest.raises(CorruptError, match="expected position") as caught:
        fold.apply_all(journal.records[place:])
    assert caught.value.kind == "order"


def test_without_the_poison_the_same_fold_goes_on():
    journal = paid(paying(), jws())
    fold = open_fold("conv-a", trust())
    fold.apply_all(journal.records)
    assert fold.position == len(journal.records)


def test_a_stopped_fold_resumes_where_it_stood():
    journal, place = poisoned()
    fold = open_fold("conv-a", trust())
    with pytest.raises(CorruptError):
        fold.apply_all(journal.records)
    resumed = resume_fold("conv-a", trust(), fold.snapshot())
    assert (resumed.position, resumed.rows()) == (place - 1, fold.rows())


def test_a_check_refuses_to_answer_for_a_stopped_conversation_and_answers_for_others():
    stopped, place = poisoned("conv-a")
    spending = Spending(trust())
    spending.take([*stopped.records, *paid(paying("conv-b"), jws()).records])
    assert spending.next_position("conv-a") == place
    for question in ({}, {"persona": "ada"}, {"partition": "conv-a"}):
        with pytest.raises(CorruptError, match=f"conv-a@{place}"):
            spending.payments(**question)
    assert [fact.amount for fact in spending.payments(partition="conv-b")] == [10_000]


def test_a_check_is_not_healed_by_reading_the_poison_again():
    stopped, place = poisoned("conv-a")
    spending = Spending(trust())
    for _ in range(2):
        spending.take(stopped.records)
        spending.take(stopped.records[place:])
    with pytest.raises(CorruptError):
        spending.payments(partition="conv-a")


def test_a_check_refuses_to_answer_for_stopped_reservations():
    spending = Spending(trust())
    journal = Journal("spend-ada")
    journal.raw(BY_KIND["spend_reserved"].code, b"{}")
    spending.take(journal.records)
    with pytest.raises(CorruptError, match="spend-ada@1"):
        spending.spent(persona="ada", asset="usdc", network="n")
    assert spending.spent(persona="eve", asset="usdc", network="n") == 0


@pytest.mark.parametrize("partition", ["conv-a", "personas", "spend-ada"])
def test_a_dropped_fold_is_freed_without_the_cycle_collector(partition):
    journal = Journal(partition).start().say().end()
    gc.collect()
    gc.disable()
    try:
        fold = open_fold(partition, TRUST)
        fold.apply_all(journal.records)
        fold.rows()
        del fold
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_the_collector_would_find_a_cycle():
    gc.collect()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() > 0
