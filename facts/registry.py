"""The deployment's small registries: personas, routines, credentials, imports, wallets, prices.

Each class is the fold of one kind of partition: `apply` takes an event and its place and answers the kind of anomaly
when the event changes nothing; `rows` gives the tables.
"""

from decimal import Decimal

import msgspec

from facts.events import (
    Credential,
    ImportQuarantined,
    PersonaRecorded,
    PriceSet,
    RoutineRecorded,
    RoutineRun,
    RoutineStep,
    WalletLink,
)
from facts.fold import Row, Rows
from facts.intake import utc
from facts.place import Place


class Personas(msgspec.Struct):
    """`personas`: the last record of a persona id wins."""

    personas: dict[str, Row] = {}

    def apply(self, event: PersonaRecorded, place: Place) -> str | None:
        """Take a persona's record."""
        self.personas[event.persona_id] = (
            *place.row,
            event.persona_id,
            event.display_name,
            event.state,
            event.is_admin,
            event.acted_by,
        )
        return None

    def rows(self) -> Rows:
        """One row a persona."""
        return {"personas": [row for _, row in sorted(self.personas.items())]}


class Routines(msgspec.Struct):
    """`routines`, `routine_runs`, `routine_steps`."""

    routines: dict[str, Row] = {}
    runs: dict[str, Row] = {}
    steps: list[Row] = []

    def apply(self, event: RoutineRecorded | RoutineRun | RoutineStep, place: Place) -> str | None:
        """Take a routine's definition, run or step."""
        if isinstance(event, RoutineRecorded):
            self.routines[event.routine] = (
                *place.row,
                event.routine,
                event.conversation_id,
                event.schedule,
                event.prompt,
                event.persona_id,
                event.state,
            )
        elif isinstance(event, RoutineRun):
            known = self.runs.get(event.run_id)
            started_at = utc(event.started_at) or (known[8] if known else None)
            self.runs[event.run_id] = (
                *place.row,
                event.run_id,
                event.routine,
                event.trigger,
                event.status,
                started_at,
                utc(event.ended_at),
            )
        else:
            self.steps.append((*place.row, event.run_id, event.step, event.action, event.status, event.detail))
        return None

    def rows(self) -> Rows:
        """The rows of the three tables."""
        return {
            "routines": [row for _, row in sorted(self.routines.items())],
            "routine_runs": [row for _, row in sorted(self.runs.items())],
            "routine_steps": list(self.steps),
        }


class Credentials(msgspec.Struct):
    """`credential_history`: never a secret, never a token, not even a session's hash."""

    history: list[Row] = []

    def apply(self, event: Credential, place: Place) -> str | None:
        """Take an event of a credential's life."""
        self.history.append(
            (
                *place.row,
                event.credential_id,
                event.kind,
                event.subject,
                event.event,
                event.realm,
                event.scope_size,
                place.when(event),
                utc(event.expires_at),
                event.acted_by,
            )
        )
        return None

    def rows(self) -> Rows:
        """One row an event."""
        return {"credential_history": list(self.history)}


class Imports(msgspec.Struct):
    """`import_quarantine`."""

    quarantined: list[Row] = []

    def apply(self, event: ImportQuarantined, place: Place) -> str | None:
        """Take the note of a line that could not be read."""
        self.quarantined.append(
            (*place.row, event.provider, event.path, event.offset, event.size_bytes, event.reason, event.sha256)
        )
        return None

    def rows(self) -> Rows:
        """One row a line."""
        return {"import_quarantine": list(self.quarantined)}


class Wallets(msgspec.Struct):
    """`wallet_link_lifecycle` of ceremonies outside any conversation."""

    steps: list[Row] = []

    def apply(self, event: WalletLink, place: Place) -> str | None:
        """Take a step of a ceremony."""
        self.steps.append(
            (
                *place.row[:3],
                None,
                place.at,
                event.wallet,
                event.network,
                event.state,
                event.persona_id,
                event.reason,
            )
        )
        return None

    def rows(self) -> Rows:
        """One row a step."""
        return {"wallet_link_lifecycle": list(self.steps)}


class Prices(msgspec.Struct):
    """`prices`: the last record of (model, day, currency) wins."""

    prices: dict[str, Row] = {}

    def apply(self, event: PriceSet, place: Place) -> str | None:
        """Take a price."""
        self.prices[f"{event.model}\x1f{event.valid_from}\x1f{event.currency}"] = (
            *place.row,
            event.model,
            event.valid_from,
            event.currency,
            event.input_per_million,
            event.output_per_million,
            event.cache_read_per_million,
            event.cache_write_per_million,
            event.acted_by,
        )
        return None

    def rows(self) -> Rows:
        """One row a price."""
        return {"prices": [row for _, row in sorted(self.prices.items())]}


def base_units(text: str) -> Decimal | None:
    """An amount's exact value; None when it is not 1 to 38 decimal digits.

    >>> base_units("12"), base_units("1" * 39), base_units("-1"), base_units("1.5")
    (Decimal('12'), None, None, None)
    """
    return Decimal(text) if 0 < len(text) <= 38 and text.isascii() and text.isdigit() else None
