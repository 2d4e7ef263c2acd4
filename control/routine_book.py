"""Routines and their runs, as the partition `routines` says it up to now. Pure."""

import msgspec

from facts.events import AnyEvent, RoutineRecorded, RoutineRun
from polyc.entry import Record

CODES = frozenset({"routine_recorded", "routine_run"})


class Routine(msgspec.Struct, frozen=True):
    """A routine as last recorded, and when it last ran (or was recorded)."""

    routine: str
    conversation: str
    schedule: str
    prompt: str
    persona_id: str | None
    state: str
    since_us: int


class RoutineBook(msgspec.Struct):
    """Routines by name, and the runs that have no end yet."""

    routines: dict[str, Routine] = msgspec.field(default_factory=dict)
    running: dict[str, str] = msgspec.field(default_factory=dict)

    def apply(self, record: Record, event: AnyEvent) -> None:
        """Take a record of the partition."""
        match event:
            case RoutineRecorded():
                self.routines[event.routine] = Routine(
                    event.routine,
                    event.conversation_id,
                    event.schedule,
                    event.prompt,
                    event.persona_id,
                    event.state,
                    record.recorded_at_us,
                )
            case RoutineRun(status="started"):
                self.running[event.run_id] = event.routine
                known = self.routines.get(event.routine)
                if known is not None:
                    self.routines[event.routine] = msgspec.structs.replace(known, since_us=record.recorded_at_us)
            case RoutineRun():
                self.running.pop(event.run_id, None)
            case _:
                pass
