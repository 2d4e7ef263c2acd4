"""Which wallet is linked to which persona, as the ceremonies' records say it. Pure."""

import msgspec

from facts.events import AnyEvent, WalletLink
from polyc.entry import Record

CODES = frozenset({"wallet_link"})


class WalletBook(msgspec.Struct):
    """Linked wallets: `network wallet` → persona."""

    linked: dict[str, str] = msgspec.field(default_factory=dict)

    def apply(self, _record: Record, event: AnyEvent) -> None:
        """Take a step of a ceremony."""
        if not isinstance(event, WalletLink) or event.persona_id is None:
            return
        key = wallet_key(event.network, event.wallet)
        if event.state == "linked":
            self.linked[key] = event.persona_id
        elif event.state == "revoked":
            self.linked.pop(key, None)


def wallet_key(network: str, wallet: str) -> str:
    """How a wallet is named in the book.

    >>> wallet_key("solana:mainnet", "4Nd1")
    'solana:mainnet 4Nd1'
    """
    return f"{network} {wallet}"
