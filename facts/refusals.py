"""The ungated records of a conversation: `refusals`, `wallet_link_lifecycle` and `identity_provenance`.

A blocked attempt leaves its record whether or not its turn is ever committed; `turn_id` is set when the attempt
belongs to a turn that was started. Ceremonies and identity assertions need no turn at all.
"""

from datetime import datetime

import msgspec

from facts.call_ids import qualified
from facts.events import IdentityAsserted, Refusal, WalletLink
from facts.fold import Row
from facts.intake import utc


class Refusals(msgspec.Struct):
    """The ungated edge records of one incarnation of a partition."""

    partition: str
    incarnation: str
    refused: list[Row] = []
    wallets: list[Row] = []
    identities: list[Row] = []

    def refuse(self, event: Refusal, position: int, turn: str | None, at: datetime, *, uses: int) -> None:
        """Take a blocked attempt; `uses` numbers the call it is about."""
        native = event.tool_call_id or event.request_id
        self.refused.append(
            (
                self.partition,
                self.incarnation,
                position,
                turn,
                at,
                qualified(self.partition, event.request_id, uses),
                qualified(self.partition, native, uses),
                event.tool_name,
                event.stage,
                event.rule,
                event.reason,
                event.request_id,
            )
        )

    def wallet(self, event: WalletLink, position: int, turn: str | None, at: datetime) -> None:
        """Take a step of a ceremony."""
        self.wallets.append(
            (
                self.partition,
                self.incarnation,
                position,
                turn,
                at,
                event.wallet,
                event.network,
                event.state,
                event.persona_id,
                event.reason,
            )
        )

    def identity(self, event: IdentityAsserted, position: int, turn: str | None, at: datetime) -> None:
        """Take an assertion of who a participant is."""
        self.identities.append(
            (
                self.partition,
                self.incarnation,
                position,
                turn,
                at,
                event.persona_id,
                event.identity,
                event.asserted_by,
                event.edge,
                event.method,
                utc(event.occurred_at) or at,
            )
        )
