"""Wallet-link ceremonies over HTTP."""

from typing import Annotated

from pydantic import BaseModel, Field

from control.api.operation import Call, Nothing, Operation, Wire

Account = Annotated[str, Field(min_length=1, max_length=128)]
Network = Annotated[str, Field(pattern=r"^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}$")]


class LinkBody(Wire):
    """A wallet to link; with a conversation, its participants see the ceremony."""

    wallet: Account
    network: Network
    conversation: Annotated[str, Field(max_length=128)] | None = None


class ChallengeAnswer(Wire):
    """The text the wallet must sign; good once."""

    challenge_id: str
    text: str


class ProofBody(Wire):
    """The wallet's signature over the text: base58 (Solana) or 0x… (EIP-191)."""

    signature: Annotated[str, Field(min_length=1, max_length=256)]


class LinkedAnswer(Wire):
    """Whether the wallet is linked now."""

    linked: bool


class WalletBody(Wire):
    """A wallet of yours."""

    wallet: Account
    network: Network


def link(call: Call) -> BaseModel:
    """Begin a ceremony."""
    body: LinkBody = call.body
    challenge = call.service.wallets.request(
        call.who.persona_id, wallet=body.wallet, network=body.network, conversation=body.conversation
    )
    return ChallengeAnswer(challenge_id=challenge.challenge_id, text=challenge.text)


def prove(call: Call) -> BaseModel:
    """Finish it."""
    body: ProofBody = call.body
    linked = call.service.wallets.prove(call.who.persona_id, call.path["challenge"], signature=body.signature)
    return LinkedAnswer(linked=linked)


def revoke(call: Call) -> BaseModel:
    """Undo it."""
    body: WalletBody = call.body
    call.service.wallets.revoke(call.who.persona_id, wallet=body.wallet, network=body.network)
    return Nothing()


OPERATIONS = [
    Operation(
        name="link_wallet",
        method="POST",
        path="/api/wallets",
        access="persona",
        summary="Begin to link a wallet: answers the text that it must sign.",
        body=LinkBody,
        answer=ChallengeAnswer,
        handle=link,
    ),
    Operation(
        name="prove_wallet",
        method="POST",
        path="/api/wallets/challenges/{challenge}",
        access="persona",
        summary="Prove that you hold the wallet's key.",
        body=ProofBody,
        answer=LinkedAnswer,
        handle=prove,
    ),
    Operation(
        name="revoke_wallet",
        method="POST",
        path="/api/wallets/revoke",
        access="persona",
        summary="Unlink a wallet of yours.",
        body=WalletBody,
        answer=Nothing,
        handle=revoke,
    ),
]
