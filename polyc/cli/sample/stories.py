"""What was said in the sample: five short pieces of work on a ferry company's programs. All of it is invented.

A turn's `end` says how it ended: `completed`; `cancelled` (the person interrupted); `crashed` (the file ends inside
the turn, so no query may ever see it).
"""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call and what it gave back; `output` None means that the file ends before the answer."""

    tool: Literal["shell", "read", "edit", "search"]
    target: str
    output: str | None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A prompt, the calls it led to, and the closing words."""

    prompt: str
    calls: tuple[Call, ...] = ()
    answer: str = ""
    thought: str = ""
    end: Literal["completed", "cancelled", "crashed"] = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One conversation: where and when it happened, and its turns."""

    name: str
    form: Literal["claude-code", "codex"]
    title: str
    project: str
    branch: str
    model: str
    started_at: str
    turns: tuple[Turn, ...]


STORIES: Final[tuple[Story, ...]] = (
    Story(
        name="tide-tables",
        form="claude-code",
        title="Tide tables an hour late",
        project="ferry-timetable",
        branch="main",
        model="claude-sonnet-4-5-20250929",
        started_at="2026-11-02T08:12:00Z",
        turns=(
            Turn(
                prompt="The harbour page shows every high tide an hour late since Sunday. Can you find out why?",
                thought="Since Sunday: the clocks went back. Something mixes local time and UTC.",
                calls=(
                    Call(
                        tool="search",
                        target="astimezone",
                        output="src/tides/table.py:41:    return moment.astimezone().hour",
                    ),
                    Call(
                        tool="read",
                        target="src/tides/table.py",
                        output="def hour_of(moment):\n    return moment.astimezone().hour",
                    ),
                    Call(
                        tool="shell", target="pytest -q tests/test_tides.py", output="1 failed, 11 passed", failed=True
                    ),
                ),
                answer="`hour_of` uses the server's time zone. The server stayed on summer time, the harbour did not.",
            ),
            Turn(
                prompt="Fix it and add a test for the last Sunday in October.",
                calls=(
                    Call(
                        tool="edit", target="src/tides/table.py", output="The file src/tides/table.py has been updated."
                    ),
                    Call(
                        tool="edit",
                        target="tests/test_tides.py",
                        output="The file tests/test_tides.py has been updated.",
                    ),
                    Call(tool="shell", target="pytest -q tests/test_tides.py", output="13 passed"),
                ),
                answer="The table now asks for the harbour's own zone, and a test covers the night the clocks change.",
            ),
        ),
    ),
    Story(
        name="fare-rounding",
        form="claude-code",
        title="Cents that went missing",
        project="ferry-fares",
        branch="feat/rounding",
        model="claude-opus-4-5-20251101",
        started_at="2026-11-03T13:40:00Z",
        turns=(
            Turn(
                prompt="A group of seven pays 0.03 less than seven single fares. Where do the cents go?",
                thought="Rounding per group instead of per person, or binary floats.",
                calls=(
                    Call(
                        tool="search", target="round(", output="src/fares/group.py:18:    return round(total * 0.85, 2)"
                    ),
                    Call(
                        tool="shell",
                        target="python -m fares.check --group 7",
                        output="expected 83.30, got 83.27",
                        failed=True,
                    ),
                ),
                answer="The discount is rounded once for the group. Rounding each fare first gives the printed price.",
            ),
            Turn(
                prompt="Rewrite all of the fares module in one go, please.",
                calls=(
                    Call(
                        tool="read",
                        target="src/fares/group.py",
                        output="def group_fare(total):\n    return round(total * 0.85, 2)",
                    ),
                ),
                end="cancelled",
            ),
            Turn(
                prompt="Sorry, too much at once. Only use Decimal in group_fare.",
                calls=(
                    Call(
                        tool="edit", target="src/fares/group.py", output="The file src/fares/group.py has been updated."
                    ),
                    Call(tool="shell", target="python -m fares.check --group 7", output="83.30, as printed"),
                ),
                answer="`group_fare` now counts in Decimal and rounds each fare; the check agrees with the price list.",
            ),
        ),
    ),
    Story(
        name="night-deploy",
        form="claude-code",
        title="Deploy that stopped half way",
        project="ferry-timetable",
        branch="main",
        model="claude-sonnet-4-5-20250929",
        started_at="2026-11-05T22:05:00Z",
        turns=(
            Turn(
                prompt="Which machines still run last week's build?",
                calls=(Call(tool="shell", target="fleetctl versions", output="quay-1 2026.44\nquay-2 2026.43"),),
                answer="Only quay-2 is behind: it runs 2026.43.",
            ),
            Turn(
                prompt="Roll quay-2 forward and tell me when the health check is green.",
                calls=(Call(tool="shell", target="fleetctl deploy quay-2 2026.44", output=None),),
                end="crashed",
            ),
        ),
    ),
    Story(
        name="seat-map",
        form="codex",
        title="Seat map on small screens",
        project="ferry-booking",
        branch="main",
        model="gpt-5.1-codex",
        started_at="2026-11-04T09:30:00Z",
        turns=(
            Turn(
                prompt="On a phone the seat map is cut off after row 12. Make it scroll.",
                thought="The container has a fixed height.",
                calls=(
                    Call(tool="shell", target="rg -n 'height' web/seatmap.css", output="7:  height: 480px;"),
                    Call(
                        tool="edit",
                        target="web/seatmap.css",
                        output="Success. Updated the following files:\nM web/seatmap.css",
                    ),
                    Call(tool="shell", target="npm test -- seatmap", output="6 passed"),
                ),
                answer="The map's height was fixed at 480 px; it now fills the screen and scrolls.",
            ),
            Turn(
                prompt="And the legend under it?",
                calls=(
                    Call(tool="shell", target="rg -n 'legend' web", output='web/seatmap.html:31:  <ul class="legend">'),
                    Call(tool="shell", target="npm run lint", output="1 error: legend has no label", failed=True),
                    Call(
                        tool="edit",
                        target="web/seatmap.html",
                        output="Success. Updated the following files:\nM web/seatmap.html",
                    ),
                ),
                answer="The legend sticks to the bottom edge now and has the label that the linter missed.",
            ),
        ),
    ),
    Story(
        name="backup-report",
        form="codex",
        title="What the backup report means",
        project="ferry-ops",
        branch="reports",
        model="gpt-5.2-codex",
        started_at="2026-11-06T06:55:00Z",
        turns=(
            Turn(
                prompt="The nightly report says 3 tables skipped. Is that bad?",
                calls=(
                    Call(
                        tool="shell",
                        target="sed -n '1,40p' reports/latest.txt",
                        output="skipped: tmp_seats, tmp_cars, tmp_crew",
                    ),
                ),
                answer="No: all three are scratch tables that are rebuilt every morning.",
            ),
            Turn(
                prompt="Then make the report say so.",
                calls=(
                    Call(
                        tool="edit",
                        target="reports/nightly.py",
                        output="Success. Updated the following files:\nM reports/nightly.py",
                    ),
                ),
                end="cancelled",
            ),
        ),
    ),
)
