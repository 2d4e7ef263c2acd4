"""The cohort of a conversation is a function of its first record alone (ruling 26)."""

from datetime import UTC, datetime

import msgspec
import pytest

from projector.replay import cohort_of

RECORDED = datetime(2026, 3, 4, 12, tzinfo=UTC)
RECORDED_US = int(RECORDED.timestamp() * 1e6)


@pytest.mark.parametrize(
    ("occurred_at", "cohort"),
    [
        ("2025-01-01T00:00:00Z", "2025-W01"),
        ("2024-12-30T00:00:00Z", "2025-W01"),
        ("2025-06-01T23:30:00-02:00", "2025-W23"),  # a Sunday there, Monday in UTC
        ("2019-12-29T00:00:00Z", "2026-W10"),
        ("1970-01-01T00:00:00Z", "2026-W10"),
        ("2030-01-01T00:00:00Z", "2026-W10"),
        ("9999-12-31T23:59:59Z", "2026-W10"),
        ("0001-01-01T00:00:00+14:00", "2026-W10"),
        ("2025-01-01T00:00:00", "2026-W10"),
        ("yesterday", "2026-W10"),
        (17, "2026-W10"),
        (None, "2026-W10"),
    ],
)
def test_what_the_first_event_says_counts_when_it_is_believable(occurred_at: object, cohort: str) -> None:
    assert cohort_of(RECORDED_US, msgspec.json.encode({"occurred_at": occurred_at})) == cohort


@pytest.mark.parametrize("payload", [None, b"", b"\xff", b"[]", b'{"occurred_at":', b'{"occurred_at":{}}'])
def test_a_payload_that_cannot_be_read_falls_back_to_recorded_at(payload: bytes | None) -> None:
    assert cohort_of(RECORDED_US, payload) == "2026-W10"
