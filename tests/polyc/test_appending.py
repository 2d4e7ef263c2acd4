"""Authors chain and sign; ANY retries, everything else tells who came first."""

import pytest

from polyc import entry
from polyc.appending import Ack, Author, Draft, Expected, Head, sign_append
from polyc.clock import ManualClock
from polyc.errors import ConflictError, RefusedError
from polyc.ids import SeededIds
from polyc.signing import new_signer, verify

ORIGIN = "example.org/log"


class OnePartition:
    """A port that holds one partition in memory and can be overtaken: the smallest honest journal."""

    origin = ORIGIN

    def __init__(self, *, overtaken_times=0):
        self.appends = []
        self.at = None
        self.overtaken_times = overtaken_times
        self.calls = 0
        self.asked = 0

    def head(self, partition):
        self.asked += 1
        return self.at

    def append(self, signed):
        self.calls += 1
        if self.overtaken_times:
            self.overtaken_times -= 1
            raise ConflictError("overtaken", actual=99)
        last = entry.decode_header(signed.entries[-1].header, place="test")
        self.appends.append(signed)
        self.at = Head(signed.partition, last.incarnation, last.position, entry.leaf_hash(signed.entries[-1].header))
        return Ack(0, last.position - len(signed.entries) + 1, last.position, self.at, "note")


def an_author(port):
    ids = SeededIds()
    return Author(port, new_signer(ids), clock=ManualClock(), ids=ids)


def test_an_append_chains_from_genesis_and_is_signed_by_its_author():
    port = OnePartition()
    author = an_author(port)
    author.append("conv-a", [Draft(3, b"one"), Draft(4, b"two", closes_fence=True)], fence=b"f" * 16)
    (signed,) = port.appends
    first, second = (entry.decode_header(e.header, place="test") for e in signed.entries)
    assert first.prev == entry.genesis(ORIGIN, "conv-a", first.incarnation)
    assert second.prev == entry.leaf_hash(signed.entries[0].header)
    assert (first.position, second.position) == (1, 2)
    assert (first.flags, second.flags) == (0, entry.FLAG_LAST | entry.FLAG_CLOSES_FENCE)
    assert first.payload_digest == entry.payload_digest(signed.entries[0].salt, b"one")
    preimage = entry.append_preimage(ORIGIN, entry.leaf_hash(signed.entries[1].header))
    assert verify(author.signer.public_key, signed.signature, preimage)


def test_a_signature_does_not_verify_for_another_log():
    ids = SeededIds()
    signer = new_signer(ids)
    head = Head("conv-a", b"i" * 16, 0, entry.genesis(ORIGIN, "conv-a", b"i" * 16))
    signed = sign_append(
        [Draft(3, b"x")], head=head, origin=ORIGIN, signer=signer, append_id=b"a" * 16, recorded_at_us=0, ids=ids
    )
    leaf = entry.leaf_hash(signed.entries[0].header)
    assert verify(signer.public_key, signed.signature, entry.append_preimage(ORIGIN, leaf))
    assert not verify(signer.public_key, signed.signature, entry.append_preimage("another.example/log", leaf))


def test_any_retries_until_it_is_first():
    port = OnePartition(overtaken_times=3)
    assert an_author(port).append("conv-a", [Draft(3, b"x")]).last_position == 1
    assert port.calls == 4


def test_an_author_asks_for_the_head_once_while_nobody_comes_between():
    port = OnePartition()
    author = an_author(port)
    for position in (1, 2, 3):
        assert author.append("conv-a", [Draft(3, b"x")]).last_position == position
    assert port.asked == 1


def test_an_author_that_was_overtaken_asks_for_the_head():
    port = OnePartition()
    author, other = an_author(port), an_author(port)
    author.append("conv-a", [Draft(3, b"x")])
    other.append("conv-a", [Draft(3, b"y")])
    port.overtaken_times = 1  # as a journal would say to who chains to the first
    assert author.append("conv-a", [Draft(3, b"z")]).last_position == 3
    asked = port.asked
    author.append("conv-a", [Draft(3, b"z")], expected=3)
    assert port.asked == asked + 1, "whoever names a position is told the truth about it"


def test_an_expected_position_is_never_retried():
    port = OnePartition(overtaken_times=1)
    with pytest.raises(ConflictError):
        an_author(port).append("conv-a", [Draft(3, b"x")], expected=Expected.NEW)
    assert port.calls == 1


@pytest.mark.parametrize("expected", [Expected.NEW, 0, 2])
def test_a_wrong_expectation_tells_the_actual_position(expected):
    port = OnePartition()
    author = an_author(port)
    author.append("conv-a", [Draft(3, b"x")])
    with pytest.raises(ConflictError) as caught:
        author.append("conv-a", [Draft(3, b"y")], expected=expected)
    assert caught.value.actual == 1


def test_a_new_incarnation_starts_again_at_one():
    port = OnePartition()
    author = an_author(port)
    author.append("conv-a", [Draft(3, b"x"), Draft(3, b"y")])
    before = port.at
    author.append("conv-a", [Draft(3, b"z")], new_incarnation=True)
    assert port.at.position == 1
    assert port.at.incarnation != before.incarnation


@pytest.mark.parametrize("name", ["", "Conv-a", "conv-", "conv-A", "conv-a/b", "conv-" + "a" * 65, "1abc", "conv-a\n"])
def test_a_name_outside_the_grammar_is_refused_before_anything_is_signed(name):
    port = OnePartition()
    with pytest.raises(RefusedError):
        an_author(port).append(name, [Draft(3, b"x")])
    assert port.calls == 0
