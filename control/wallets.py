"""Wallet-link ceremonies: a persona proves that it holds a wallet's key. They run outside any turn.

    requested → challenged → linked | failed          linked → revoked

The challenge is a text that names the persona, this log, the wallet and a nonce; the wallet signs it. Solana accounts
are Ed25519 keys in base58 and sign the text itself; EIP-155 accounts sign it as EIP-191 says, which needs the optional
extra `eth-account`. A challenge is good once and for ten minutes. Records stand in `wallets`, or in a conversation
the persona names, so that its participants see them.
"""

import base64
import re
import threading
from dataclasses import dataclass
from typing import Any, Final, Literal

from control import conversations
from control.context import ControlContext
from control.wallet_book import wallet_key
from facts import codec, eip712
from facts.events import WalletLink
from polyc import signing
from polyc.errors import RefusedError
from polyc.limits import WALLET_CHALLENGE_S, WALLET_CHALLENGES_MAX

WALLETS_PARTITION: Final = "wallets"
_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_ETHEREUM: Final = re.compile(r"0x[0-9a-fA-F]{40}")
_SIGNATURE: Final = re.compile(r"0x[0-9a-fA-F]{130}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """What a wallet is asked to sign, and until when (monotonic seconds)."""

    challenge_id: str
    persona_id: str
    wallet: str
    network: str
    partition: str
    text: str
    ends_s: float


class WalletDesk:
    """The ceremonies of this process; a restart forgets open challenges, and the persona asks again."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._open: dict[str, Challenge] = {}

    def request(self, persona_id: str, *, wallet: str, network: str, conversation: str | None) -> Challenge:
        """Record that the persona wants the wallet linked, and what it is challenged with."""
        check_account(network, wallet)
        partition = WALLETS_PARTITION
        if conversation is not None:
            conversations.check_participant(self._context, conversation, persona_id)
            conversations.check_live(self._context, conversation)
            partition = conversation
        nonce = base64.urlsafe_b64encode(self._context.ids.token(18)).decode()
        challenge = Challenge(
            challenge_id=self._context.new_id(),
            persona_id=persona_id,
            wallet=wallet,
            network=network,
            partition=partition,
            text=_text(self._context.journal.origin, persona_id, network, wallet, nonce),
            ends_s=self._context.clock.monotonic_s() + WALLET_CHALLENGE_S,
        )
        with self._lock:
            self._forget()
            if len(self._open) >= WALLET_CHALLENGES_MAX:
                raise RefusedError("too many challenges are open", code="resource_exhausted")
            self._open[challenge.challenge_id] = challenge
        self._record(challenge, "requested")
        self._record(challenge, "challenged")
        return challenge

    def prove(self, persona_id: str, challenge_id: str, *, signature: str) -> bool:
        """Link the wallet when the signature is its own; False, on record, when it is not. The challenge is used up."""
        with self._lock:
            self._forget()
            challenge = self._open.get(challenge_id)
            if challenge is None or challenge.persona_id != persona_id:
                raise RefusedError("no such challenge", code="not_found", hint="ask for a new one")
            del self._open[challenge_id]
        holds = _holds(challenge, signature)
        self._record(challenge, "linked" if holds else "failed", reason=None if holds else "bad_signature")
        return holds

    def revoke(self, persona_id: str, *, wallet: str, network: str) -> None:
        """The persona's wallet is no longer linked."""
        with self._context.index.view() as state:
            holder = state.wallets.linked.get(wallet_key(network, wallet))
        if holder != persona_id:
            raise RefusedError("no such linked wallet of yours", code="not_found")
        event = WalletLink(
            id=self._context.new_id(), wallet=wallet, network=network, state="revoked", persona_id=persona_id
        )
        self._context.control.append(WALLETS_PARTITION, [codec.encode(event)])

    def _record(
        self,
        challenge: Challenge,
        state: Literal["requested", "challenged", "linked", "failed"],
        *,
        reason: str | None = None,
    ) -> None:
        event = WalletLink(
            id=self._context.new_id(),
            wallet=challenge.wallet,
            network=challenge.network,
            state=state,
            persona_id=challenge.persona_id,
            reason=reason,
        )
        self._context.control.append(challenge.partition, [codec.encode(event)])

    def _forget(self) -> None:
        now_s = self._context.clock.monotonic_s()
        for challenge in [item for item in self._open.values() if item.ends_s <= now_s]:
            del self._open[challenge.challenge_id]


def check_account(network: str, wallet: str) -> None:
    """Return, or refuse an account that is none on its network, or a network whose proofs cannot be verified here."""
    match network.partition(":")[0]:
        case "solana":
            if len(_unbase58(wallet) or b"") != 32:
                raise RefusedError("not a Solana account")
        case "eip155":
            if not _ETHEREUM.fullmatch(wallet):
                raise RefusedError("not an Ethereum account")
            _eth_account()
        case _:
            raise RefusedError("wallets of this network cannot be linked", code="failed_precondition")


def _text(origin: str, persona_id: str, network: str, wallet: str, nonce: str) -> str:
    return (
        f"Polychrome wallet link v1\nlog: {origin}\npersona: {persona_id}\nwallet: {network}:{wallet}\nnonce: {nonce}"
    )


def _holds(challenge: Challenge, signature: str) -> bool:
    if challenge.network.startswith("solana:"):
        account, raw = _unbase58(challenge.wallet), _unbase58(signature)
        return account is not None and raw is not None and signing.verify(account, raw, challenge.text.encode())
    if not _SIGNATURE.fullmatch(signature):
        return False
    account, messages = _eth_account()
    try:
        signer = account.recover_message(messages.encode_defunct(text=challenge.text), signature=signature)
    except Exception:  # the library raises several unrelated kinds for signatures that are none
        return False
    return str(signer).lower() == challenge.wallet.lower()


def _eth_account() -> tuple[Any, Any]:
    try:
        return eip712.library()
    except ImportError:
        raise RefusedError("EIP-155 wallets need the extra eth-account", code="failed_precondition") from None


def _unbase58(text: str) -> bytes | None:
    r"""The bytes of a base58 text, or None.

    >>> _unbase58("11z"), _unbase58("0")
    (b'\x00\x009', None)
    """
    if len(text) > 128 or not text or any(letter not in _BASE58 for letter in text):
        return None
    number = 0
    for letter in text:
        number = number * 58 + _BASE58.index(letter)
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
