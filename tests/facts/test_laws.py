"""Laws of the folds, over generated journals: they equal a naive oracle, and nothing outside a committed turn matters."""

from hypothesis import given, settings
from hypothesis import strategies as st

from facts.catalog import TABLES
from facts.partition import open_fold, resume_fold
from tests.facts.generate import add, build, steps, turn_events
from tests.facts.journal import SIGNERS, TRUST, Journal, column, fold_of
from tests.facts.oracle import Oracle

ROLES = {signer.key_id: role for role, signer in SIGNERS.items()}
# The same journals in every run, and a busy machine is no failure.
LAW = settings(deadline=None, derandomize=True, database=None)
GATED = [name for name, table in TABLES.items() if table.gated]


def gated(rows):
    return {name: rows.get(name, []) for name in GATED}


def seen(rows, table, *names):
    columns = [column(rows, table, name) for name in ("position", "turn_id", *names)]
    return list(zip(*columns, strict=True))


def assert_equals_oracle(journal):
    rows, oracle = journal.rows(), Oracle(journal.records, ROLES)
    assert seen(rows, "turns", "turn_index") == oracle.turns()
    assert seen(rows, "messages", "message_id", "text") == oracle.messages()
    assert seen(rows, "usage", "call_id", "input_tokens") == oracle.usage()
    assert seen(rows, "tool_calls", "tool_call_id", "block_type") == oracle.tool_calls()
    assert seen(rows, "approvals", "outcome") == oracle.approvals()
    asked = zip(column(rows, "approvals", "position"), column(rows, "approvals", "request_id"), strict=True)
    assert list(asked) == oracle.requests()
    assert column(rows, "refusals", "position") == oracle.refusals()


@LAW
@given(steps)
def test_tables_equal_a_naive_oracle(chosen):
    assert_equals_oracle(build(chosen))


@LAW
@given(steps)
def test_tables_of_an_import_equal_a_naive_oracle(chosen):
    journal = Journal("conv-imp-a").open("codex", by="importer")
    for step in chosen:
        add(journal, step, by="importer" if step[-1] in ("control", "harness") else None)
    assert_equals_oracle(journal)


def test_the_oracle_can_disagree():
    journal = Journal().open().start().say("a").end()
    oracle = Oracle(journal.records[:-1], ROLES)
    assert oracle.messages() != seen(journal.rows(), "messages", "message_id", "text")


@LAW
@given(steps, st.data())
def test_a_committed_turns_rows_are_final(chosen, data):
    journal = build(chosen)
    cut = data.draw(st.integers(0, len(journal.records)))
    before, after = fold_of(journal.records[:cut], partition="conv-a").rows(), journal.rows()
    for table in ("messages", "blocks", "usage", "model_call", "tool_calls", "approvals"):
        assert set(before[table]) <= set(after[table]), table
    assert set(seen(before, "turns", "status")) <= set(seen(after, "turns", "status"))


@LAW
@given(steps, st.lists(st.integers(0, 100), max_size=20))
def test_a_record_applied_again_changes_nothing(chosen, repeats):
    journal = build(chosen)
    fold = open_fold("conv-a", TRUST)
    for number, record in enumerate(journal.records):
        fold.apply(record)
        for repeat in repeats:
            fold.apply(journal.records[repeat % (number + 1)])
    assert fold.rows() == journal.rows()


@LAW
@given(steps, st.data())
def test_a_fold_resumes_where_it_stood(chosen, data):
    journal = build(chosen)
    fold = open_fold("conv-a", TRUST)
    cuts = data.draw(st.sets(st.integers(0, len(journal.records)), max_size=4))
    for number, record in enumerate(journal.records):
        if number in cuts:
            fold = resume_fold("conv-a", TRUST, fold.snapshot())
        fold.apply(record)
    assert fold.rows() == journal.rows()
    assert resume_fold("conv-a", TRUST, fold.snapshot()).rows() == journal.rows()


@LAW
@given(steps, steps, st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_batches_of_any_size_are_as_good_as_one_by_one(earlier, chosen, sizes):
    first, journal = build(earlier), build(chosen)
    again = Journal(incarnation=b"\x02" * 16)
    for record in journal.records:
        again.raw(record.event_type, record.payload, by=ROLES.get(record.key_id, "nobody"))
    one_by_one, batched = open_fold("conv-a", TRUST), open_fold("conv-a", TRUST)
    rest = [*first.records, *again.records]
    for record in rest:
        one_by_one.apply(record)
    for size in sizes:
        batched.apply_all(rest[:size])
        rest = rest[size:]
    batched.apply_all(iter(rest))
    assert batched.rows() == one_by_one.rows() == again.rows()
    assert batched.position == one_by_one.position == len(again.records)


FILLER = 60_000  # a type that nobody knows


def outside(step, open_turns):
    """The step, made to stand in no turn that is open here."""
    what, kind, turn, _dispatch, native, message, by = step
    return (what, kind, None if turn in open_turns else turn, None, native, message, by)


@LAW
@given(steps, st.lists(st.tuples(st.integers(0, 40), turn_events), max_size=8))
def test_an_event_outside_its_turn_changes_no_row(chosen, strangers):
    places = {place % (len(chosen) + 1): stranger for place, stranger in strangers}
    with_strangers, with_fillers = Journal().open(), Journal().open()
    for number in range(len(chosen) + 1):
        if number in places:
            state = fold_of(with_fillers.records, partition="conv-a").state
            add(with_strangers, outside(places[number], state.judgement.turns.open))
            with_fillers.raw(FILLER, b"{}")
        if number < len(chosen):
            add(with_strangers, chosen[number])
            with_fillers.records.append(
                with_strangers.records[-1].__class__(
                    **{
                        name: getattr(with_strangers.records[-1], name)
                        for name in with_strangers.records[-1].__struct_fields__
                    }
                )
            )
    assert gated(with_strangers.rows()) == gated(with_fillers.rows())


@LAW
@given(steps, steps, st.randoms(use_true_random=False))
def test_conversations_do_not_touch_each_other(one, other, random):
    journals = {name: build(chosen, name) for name, chosen in (("conv-a", one), ("conv-b", other))}
    folds = {name: open_fold(name, TRUST) for name in journals}
    queues = {name: list(journal.records) for name, journal in journals.items()}
    while any(queues.values()):
        name = random.choice([name for name, queue in queues.items() if queue])
        folds[name].apply(queues[name].pop(0))
    for name, journal in journals.items():
        assert folds[name].rows() == journal.rows()


@LAW
@given(steps)
def test_the_same_turn_ids_committed_elsewhere_make_nothing_eligible(chosen):
    journal = build(chosen)
    before = gated(journal.rows())
    for turn in ("t1", "t2", "t3"):
        journal.start(turn, conversation="b").end(turn, conversation="b")
    assert gated(journal.rows()) == before


def unplaced(rows):
    """The gated rows without what says where and when: the columns that a filler before them moves."""
    moved = {"position", "recorded_at", "started_at", "completed_at", "duration_ms", "requested_at", "decided_at"}
    moved |= {"created_at", "updated_at", "text"}  # generated texts name their position
    kept = {table: [n for n, c in enumerate(TABLES[table].column_names) if c not in moved] for table in GATED}
    return {table: [tuple(row[n] for n in kept[table]) for row in rows.get(table, [])] for table in GATED}


@LAW
@given(steps, st.lists(st.tuples(st.integers(0, 60), st.integers(1_000, 65_535)), max_size=6))
def test_unknown_events_of_a_newer_writer_change_no_row_and_are_all_counted(chosen, unknown):
    plain, newer = Journal().open(), Journal().open()
    places = sorted((place % (len(chosen) + 1), code) for place, code in unknown)
    for number in range(len(chosen) + 1):
        for place, code in places:
            if place == number:
                newer.raw(code, b"\xff\x00 whatever a newer writer writes", by="harness")
        if number < len(chosen):
            add(plain, chosen[number])
            known = plain.records[-1]
            newer.raw(known.event_type, known.payload, by=ROLES.get(known.key_id, "nobody"))
    rows = newer.rows()
    assert unplaced(rows) == unplaced(plain.rows())
    assert sum(row[7] for row in rows["anomalies"] if row[5] == "unknown_event") == len(unknown)


def committed():
    """A journal with a committed turn, and one that is open."""
    return Journal().open().start("t1").say("a").end("t1").start("t2").say("b", turn="t2")


def test_a_known_event_in_the_place_of_an_unknown_one_does_change_rows():
    assert unplaced(committed().call(turn="t2").end("t2").rows()) != unplaced(committed().end("t2").rows())


def test_an_open_turns_rows_and_a_states_row_are_not_final():
    before, after = committed().rows(), committed().end("t2").rows()
    assert len(after["messages"]) == len(before["messages"]) + 1
    assert before["sessions"] != after["sessions"]


def test_the_same_event_as_a_further_record_does_change_rows():
    journal = committed().call(turn="t2")
    again = journal.records[-1]
    journal.raw(again.event_type, again.payload, by="harness")
    assert column(journal.end("t2").rows(), "tool_calls", "tool_call_id") == ["conv-a:x", "conv-a:x#2"]


def test_within_a_partition_order_matters():
    journal = Journal().open().start().say("inside").end()
    swapped = Journal().open().start().end().say("outside")
    assert column(journal.rows(), "messages", "text") == ["inside"]
    assert column(swapped.rows(), "messages", "text") == []


def test_the_same_turn_ids_committed_here_do_make_eligible():
    assert gated(committed().rows()) != gated(committed().end("t2", conversation="a").rows())
