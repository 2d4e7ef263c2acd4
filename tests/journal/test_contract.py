"""The laws of every journal: the in-memory model, the SQLite store, and the store behind gRPC answer alike."""

import msgspec
import pytest

from polyc import entry, merkle, note
from polyc.appending import Draft, Expected, Head, SignedEntry
from polyc.errors import ConflictError, IdempotencyConflictError, RefusedError
from polyc.limits import PAYLOAD_SIZE_BYTES_MAX, RECORDED_AT_SKEW_US_MAX
from polyc.signing import new_signer
from tests.journal.log import FENCE, MESSAGE, ORIGIN, TURN_COMPLETE, Log, key_added


def texts(journal, partition, **options):
    return [record.payload.decode() for record in journal.read(partition, **options)]


def test_what_was_appended_is_read_back_in_order_with_its_place(any_journal, log: Log):
    log.say(any_journal, "conv-a", "one", "two")
    ack = log.say(any_journal, "conv-a", "three")
    records = list(any_journal.read("conv-a"))
    assert [record.position for record in records] == [1, 2, 3]
    assert [record.payload for record in records] == [b"one", b"two", b"three"]
    assert (ack.first_position, ack.last_position, ack.first_index) == (3, 3, records[-1].index)
    assert any_journal.head("conv-a") == ack.head
    assert {record.key_id for record in records} == {log.signers["harness"].key_id}


def test_a_partition_that_nobody_wrote_has_no_head_and_no_records(any_journal):
    assert any_journal.head("conv-none") is None
    assert list(any_journal.read("conv-none")) == []


def test_every_acknowledged_entry_is_under_the_checkpoint_it_came_with(any_journal, log: Log):
    ack = log.say(any_journal, "conv-a", "one")
    log.say(any_journal, "conv-b", "two")
    verifier = note.Verifier(name=ORIGIN, kind=note.ED25519, public_key=log.signers["log"].public_key)
    sealed, _ = note.open_checkpoint(ack.checkpoint, origin=ORIGIN, verifiers=[verifier], place="ack")
    latest, _ = note.open_checkpoint(any_journal.checkpoint(), origin=ORIGIN, verifiers=[verifier], place="latest")
    assert sealed.size == ack.first_index + 1
    assert latest.size == any_journal.size() == sealed.size + 1
    assert sealed.root != latest.root


def test_an_append_for_another_position_is_a_conflict_that_tells_the_actual_one(any_journal, log: Log):
    log.say(any_journal, "conv-a", "one", "two")
    with pytest.raises(ConflictError) as refused:
        log.say(any_journal, "conv-a", "late", expected=1)
    assert refused.value.actual == 2
    with pytest.raises(ConflictError):
        log.say(any_journal, "conv-a", "late", expected=Expected.NEW)
    stale = Head("conv-a", any_journal.head("conv-a").incarnation, 1, bytes(32))
    with pytest.raises(ConflictError) as refused:
        any_journal.append(log.sign("conv-a", b"late", head=stale))
    assert refused.value.actual == 2
    assert texts(any_journal, "conv-a") == ["one", "two"]


def test_of_two_writers_with_one_expectation_one_wins_and_no_position_is_lost(any_journal, log: Log):
    log.say(any_journal, "conv-a", "zero")
    head = any_journal.head("conv-a")
    first, second = log.sign("conv-a", b"x", head=head), log.sign("conv-a", b"y", head=head)
    any_journal.append(first)
    with pytest.raises(ConflictError):
        any_journal.append(second)
    assert texts(any_journal, "conv-a") == ["zero", "x"]


def test_two_who_both_start_a_partition_do_not_both_succeed(any_journal, log: Log):
    first, second = log.sign("conv-a", b"x"), log.sign("conv-a", b"y")
    any_journal.append(first)
    with pytest.raises(ConflictError) as refused:
        any_journal.append(second)
    assert refused.value.actual == 1
    assert texts(any_journal, "conv-a") == ["x"]


def test_a_repeat_is_answered_as_the_first_time_and_appends_nothing(any_journal, log: Log):
    first = log.say(any_journal, "conv-a", "one", append_id=b"i" * 16)
    log.say(any_journal, "conv-a", "between")
    again = log.say(any_journal, "conv-a", "one", append_id=b"i" * 16)
    assert (again.first_index, again.first_position, again.repeated) == (first.first_index, 1, True)
    assert first.repeated is False
    assert texts(any_journal, "conv-a") == ["one", "between"]


@pytest.mark.parametrize("other", [["two"], ["one", "two"], ["onf"]])
def test_an_append_id_that_was_used_for_other_events_is_a_conflict_not_a_success(any_journal, log: Log, other):
    log.say(any_journal, "conv-a", "one", append_id=b"i" * 16)
    with pytest.raises(IdempotencyConflictError):
        log.say(any_journal, "conv-a", *other, append_id=b"i" * 16)
    assert texts(any_journal, "conv-a") == ["one"]


def test_the_same_append_id_in_another_partition_is_another_append(any_journal, log: Log):
    log.say(any_journal, "conv-a", "one", append_id=b"i" * 16)
    assert log.say(any_journal, "conv-b", "two", append_id=b"i" * 16).repeated is False


def test_a_closed_fence_refuses_what_carries_it_and_nothing_else(any_journal, log: Log):
    log.say(any_journal, "conv-a", "in time", fence=FENCE)
    control = log.author(any_journal, "control")
    control.append("conv-a", [Draft(TURN_COMPLETE, b"end", closes_fence=True)], fence=FENCE)
    with pytest.raises(RefusedError) as refused:
        log.say(any_journal, "conv-a", "too late", fence=FENCE)
    assert refused.value.code == "failed_precondition"
    log.say(any_journal, "conv-a", "late, and says so")
    log.say(any_journal, "conv-b", "elsewhere", fence=FENCE)
    assert texts(any_journal, "conv-a") == ["in time", "end", "late, and says so"]


def test_only_control_closes_a_fence(any_journal, log: Log):
    with pytest.raises(RefusedError) as refused:
        any_journal.append(log.sign("conv-a", b"x", fence=FENCE, closes=True))
    assert refused.value.code == "permission_denied"
    with pytest.raises(RefusedError):
        any_journal.append(log.sign("conv-a", b"x", closes=True, role="control", event_type=TURN_COMPLETE))


def test_a_new_incarnation_starts_at_one_and_the_old_one_stays_readable(any_journal, log: Log):
    log.say(any_journal, "conv-a", "old", "older")
    old = any_journal.head("conv-a").incarnation
    ack = log.say(any_journal, "conv-a", "new", new_incarnation=True)
    assert (ack.first_position, ack.head.incarnation != old) == (1, True)
    assert texts(any_journal, "conv-a") == ["new"]
    assert texts(any_journal, "conv-a", incarnation=old) == ["old", "older"]
    assert [head.position for head in any_journal.partitions() if head.partition == "conv-a"] == [1]


def test_only_the_role_that_opened_a_partition_starts_it_afresh(any_journal, log: Log):
    log.say(any_journal, "conv-a", "opened by a harness")
    with pytest.raises(RefusedError) as refused:
        log.say(any_journal, "conv-a", "taken over", role="control", new_incarnation=True)
    assert refused.value.code == "permission_denied"
    with pytest.raises(RefusedError):
        log.author(any_journal, "root").append(
            "sys-keys", [key_added("edge", new_signer(log.ids))], new_incarnation=True
        )


def test_an_author_whose_role_does_not_allow_a_type_is_refused(any_journal, log: Log):
    for role, partition, event_type in [
        ("harness", "conv-a", TURN_COMPLETE),
        ("edge", "personas", 48),
        ("importer", "conv-a", MESSAGE),
        ("harness", "conv-imp-a", MESSAGE),
        ("control", "query-audit-e-20261130", 96),
        ("control", "sys-keys", 80),
        ("log", "conv-a", MESSAGE),
    ]:
        with pytest.raises(RefusedError) as refused:
            any_journal.append(log.sign(partition, b"x", role=role, event_type=event_type))
        assert refused.value.code == "permission_denied", (role, partition)


def test_a_stranger_is_refused(any_journal, log: Log):
    log.signers["harness"] = new_signer(log.ids)
    with pytest.raises(RefusedError) as refused:
        log.say(any_journal, "conv-a", "x")
    assert refused.value.code == "unauthenticated"


def test_a_key_acts_only_inside_its_range_of_the_log(any_journal, log: Log):
    late, size = new_signer(log.ids), any_journal.size()
    root = log.author(any_journal, "root")
    root.append("sys-keys", [key_added("harness", late, from_index=size + 2, to_index=size + 3)])
    log.signers["late"] = late
    with pytest.raises(RefusedError):
        log.say(any_journal, "conv-a", "too early", role="late")
    log.say(any_journal, "conv-a", "fills the index before")
    with pytest.raises(RefusedError):
        log.say(any_journal, "conv-a", "its end", "lies beyond", role="late")
    log.say(any_journal, "conv-a", "in range", role="late")
    with pytest.raises(RefusedError):
        log.say(any_journal, "conv-a", "too late", role="late")


def test_a_key_event_that_contradicts_the_keys_is_refused(any_journal, log: Log):
    root = log.author(any_journal, "root")
    with pytest.raises(RefusedError) as refused:
        root.append("sys-keys", [key_added("edge", log.signers["harness"])])
    assert refused.value.code == "failed_precondition"
    with pytest.raises(RefusedError):
        root.append("sys-keys", [Draft(80, b"not a key event")])
    assert any_journal.keyring().get(log.signers["harness"].key_id).role == "harness"


def test_clocks_may_go_backwards_and_positions_rule(any_journal, log: Log):
    log.say(any_journal, "conv-a", "one")
    log.clock.advance(seconds=-3600)
    log.say(any_journal, "conv-a", "two")
    log.clock.advance(seconds=10 * 365 * 86400)
    log.say(any_journal, "conv-a", "three")
    records = list(any_journal.read("conv-a"))
    assert [record.payload for record in records] == [b"one", b"two", b"three"]
    assert records[0].recorded_at_us > records[1].recorded_at_us
    assert [record.index for record in records] == sorted(record.index for record in records)


def test_a_recorded_time_far_from_the_journals_clock_is_refused(any_journal, log: Log):
    for skew_us in (RECORDED_AT_SKEW_US_MAX + 1, -RECORDED_AT_SKEW_US_MAX - 1):
        signed = log.sign("conv-a", b"x", recorded_at_us=log.clock.now_us() + skew_us)
        with pytest.raises(RefusedError) as refused:
            any_journal.append(signed)
        assert refused.value.code == "failed_precondition"
    any_journal.append(log.sign("conv-a", b"x", recorded_at_us=log.clock.now_us() + RECORDED_AT_SKEW_US_MAX))


def test_payloads_are_bytes_of_any_kind_within_the_bound(any_journal, log: Log):
    payloads = [b"", b"\x00", b"\xed\xa0\x80", b"\xff" * 1000, bytes(PAYLOAD_SIZE_BYTES_MAX)]
    any_journal.append(log.sign("conv-a", *payloads))
    assert [record.payload for record in any_journal.read("conv-a")] == payloads


def test_a_payload_beyond_the_bound_is_refused_and_nothing_of_its_append_is_kept(any_journal, log: Log):
    head = log.genesis("conv-a")
    fine = log.sign("conv-a", b"small", b"x", head=head)
    large = msgspec.structs.replace(fine.entries[1], payload=bytes(PAYLOAD_SIZE_BYTES_MAX + 1))
    with pytest.raises(RefusedError) as refused:
        any_journal.append(msgspec.structs.replace(fine, entries=(fine.entries[0], large)))
    assert refused.value.code == "resource_exhausted"
    assert any_journal.head("conv-a") is None


def test_a_name_outside_the_grammar_is_refused(any_journal, log: Log):
    for name in ["", "Conv-a", "conv-", "conv-a/b", "conv-é", "conv-a' OR '1'='1", "c" * 256, "conv-" + "a" * 65]:
        with pytest.raises(RefusedError):
            any_journal.append(log.sign("conv-a", b"x", head=Head(name[:255], bytes(16), 0, bytes(32))))
        with pytest.raises(RefusedError):
            any_journal.append(msgspec.structs.replace(log.sign("conv-a", b"x"), partition=name))


def mangled(signed, log: Log):
    """Appends that are not what they say, one lie each."""
    one, two = signed.entries
    replace = msgspec.structs.replace

    def header(item: SignedEntry, **changes: object) -> SignedEntry:
        decoded = entry.decode_header(item.header, place="test")
        return replace(item, header=entry.encode_header(replace(decoded, **changes)))

    yield "no events", replace(signed, entries=())
    yield "another signature", replace(signed, signature=bytes(64))
    yield "another key", replace(signed, key_id=log.signers["edge"].key_id)
    yield "another append id", replace(signed, append_id=bytes(16))
    yield "short append id", replace(signed, append_id=b"x")
    yield "dropped event", replace(signed, entries=(one,))
    yield "swapped events", replace(signed, entries=(two, one))
    yield "doubled event", replace(signed, entries=(one, one, two))
    yield "other payload", replace(signed, entries=(one, replace(two, payload=b"2")))
    yield "other salt", replace(signed, entries=(one, replace(two, salt=bytes(16))))
    yield "short salt", replace(signed, entries=(one, replace(two, salt=b"")))
    yield "cut header", replace(signed, entries=(one, replace(two, header=two.header[:-1])))
    yield "long header", replace(signed, entries=(one, replace(two, header=two.header + b"x")))
    yield "other magic", replace(signed, entries=(one, replace(two, header=b"PJE2" + two.header[4:])))
    yield "unknown flag", replace(signed, entries=(one, header(two, flags=8 | 2)))
    yield "encrypted flag", replace(signed, entries=(one, header(two, flags=1 | 2)))
    yield "no end", replace(signed, entries=(one, header(two, flags=0)))
    yield "two ends", replace(signed, entries=(header(one, flags=2), two))
    yield "later end", replace(signed, entries=(one, header(two, event_type=18)))
    yield "other fence", replace(signed, entries=(one, header(two, fence=FENCE)))
    yield "other time", replace(signed, entries=(one, header(two, recorded_at_us=log.clock.now_us() + 1)))
    yield "gap", replace(signed, entries=(one, header(two, position=3)))
    yield "other partition", replace(signed, partition="conv-b")
    yield "other incarnation", replace(signed, entries=(one, header(two, incarnation=bytes(16))))


def test_an_append_with_one_lie_in_it_is_refused_and_leaves_no_trace(any_journal, log: Log):
    size = any_journal.size()
    honest = log.sign("conv-a", b"1", b"two")
    for lie, signed in mangled(honest, log):
        with pytest.raises(RefusedError):
            print(lie, any_journal.append(signed))  # shown when the lie was believed
    assert any_journal.size() == size
    any_journal.append(honest)  # the sibling: what the lies were made of is fine


def test_readers_go_through_an_index_or_from_a_position(any_journal, log: Log):
    log.say(any_journal, "conv-a", "one", "two")
    through = any_journal.size() - 1
    log.say(any_journal, "conv-b", "other")
    log.say(any_journal, "conv-a", "three")
    assert texts(any_journal, "conv-a", through_index=through) == ["one", "two"]
    assert texts(any_journal, "conv-a", from_position=2) == ["two", "three"]
    assert texts(any_journal, "conv-a", from_position=4) == []
    everything = [record.payload for record in any_journal.read_all(from_index=through - 1)]
    assert everything == [b"one", b"two", b"other", b"three"]
    assert [r.index for r in any_journal.read_all(from_index=through, to_index=through + 2)] == [through, through + 1]


def test_changed_partitions_are_those_with_entries_since(any_journal, log: Log):
    log.say(any_journal, "conv-a", "one")
    size = any_journal.size()
    log.say(any_journal, "conv-b", "two")
    assert [head.partition for head in any_journal.changed_since(size)] == ["conv-b"]
    assert any_journal.changed_since(size + 1) == []
    names = [head.partition for head in any_journal.partitions()]
    assert names == ["conv-a", "conv-b", "sys-keys"]
    assert any_journal.wait_beyond(0, 0.0) == size + 1


def test_the_root_is_the_rfc_6962_root_over_the_leaves(any_journal, log: Log):
    log.say(any_journal, "conv-a", *[str(i) for i in range(300)])
    verifier = note.Verifier(name=ORIGIN, kind=note.ED25519, public_key=log.signers["log"].public_key)
    sealed, _ = note.open_checkpoint(any_journal.checkpoint(), origin=ORIGIN, verifiers=[verifier], place="x")
    heads = {head.partition: head for head in any_journal.partitions()}
    assert sealed.size == sum(head.position for head in heads.values())
    assert sealed.root != merkle.EMPTY_ROOT


def test_a_refused_append_to_a_new_partition_leaves_no_partition(any_journal, log: Log):
    for refused in (
        log.sign("conv-new", b"x", fence=FENCE, closes=True),  # a harness closes no fence
        log.sign("conv-new", b"x", event_type=TURN_COMPLETE),
    ):
        with pytest.raises(RefusedError):
            any_journal.append(refused)
    assert any_journal.head("conv-new") is None
    assert "conv-new" not in [head.partition for head in any_journal.partitions()]
    assert log.say(any_journal, "conv-new", "first").first_position == 1


def test_the_opening_of_a_partition_is_its_first_record(any_journal, log: Log):
    log.say(any_journal, "conv-a", "one", "two")
    log.say(any_journal, "conv-b", "other")
    log.say(any_journal, "conv-a", "three")
    for head in any_journal.partitions():
        first = next(iter(any_journal.read(head.partition)))
        assert any_journal.opening(head) == (first.recorded_at_us, first.payload)


@pytest.mark.parametrize("options", [{}, {"from_position": 3}, {"from_position": 650}, {"from_position": 1201}])
def test_batches_hold_what_read_gives_and_none_is_empty_or_without_bound(any_journal, log: Log, options):
    for size in (1, 600, 1, 599):
        log.say(any_journal, "conv-a", *[str(i) for i in range(size)])
    batches = list(any_journal.read_batches("conv-a", **options))
    assert [record for batch in batches for record in batch] == list(any_journal.read("conv-a", **options))
    assert all(0 < len(batch) < 512 + 1000 for batch in batches)
    middle = any_journal.partitions()[0].first_index + 3
    assert [len(batch) for batch in any_journal.read_batches("conv-a", through_index=middle)][-1:] != [0]
