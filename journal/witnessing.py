"""Asking witnesses to cosign our latest checkpoint, and keeping what they sign (c2sp.org/tlog-witness, client side)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import httpx

from journal.witness import SIZE_TYPE, encode_request
from polyc import note
from polyc.errors import CorruptError, RefusedError, UnavailableError

ANSWER_SIZE_BYTES_MAX: Final = note.NOTE_SIZE_BYTES_MAX
TIMEOUT_S: Final = 10.0
ATTEMPTS_MAX: Final = 3  # a witness that others ask too may move on between our two requests


class Cosignable(Protocol):
    """As much of a journal as a witness needs to be asked, and to keep its answer."""

    def checkpoint(self) -> str:
        """The latest checkpoint."""

    def consistency_proof(self, old_size: int, new_size: int) -> list[bytes]:
        """The proof that the log at `new_size` starts with the log at `old_size`."""

    def add_cosignatures(self, size: int, lines: Sequence[str]) -> None:
        """Keep the lines under the checkpoint of this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosigned:
    """A witness's cosignature of our checkpoint."""

    witness: str
    size: int
    time_s: int
    line: str


def ask(journal: Cosignable, *, url: str, witness: note.Verifier, client: httpx.Client | None = None) -> Cosigned:
    """Ask one witness to cosign the latest checkpoint, verify what it answers, and keep it.

    CorruptError when the witness cannot follow our log from what it has seen (422): that is evidence of a fork.
    """
    own = client or httpx.Client(timeout=TIMEOUT_S)
    try:
        return _ask(journal, url=url.rstrip("/"), witness=witness, client=own)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise RefusedError("not the address of a witness", hint="http://HOST:PORT") from None
    except httpx.HTTPError as error:
        raise UnavailableError(f"the witness does not answer: {type(error).__name__}") from None
    finally:
        if client is None:
            own.close()


def _ask(journal: Cosignable, *, url: str, witness: note.Verifier, client: httpx.Client) -> Cosigned:
    text = journal.checkpoint()
    parsed = note.parse_note(text, place="checkpoint")
    size = note.decode_checkpoint(parsed.text, place="checkpoint").size
    old_size = 0
    for _attempt in range(ATTEMPTS_MAX):
        proof = journal.consistency_proof(old_size, size) if old_size else []
        answer = client.post(f"{url}/add-checkpoint", content=encode_request(old_size, proof, text))
        if len(answer.content) > ANSWER_SIZE_BYTES_MAX:
            raise UnavailableError("the witness's answer is too large")
        if answer.status_code != httpx.codes.CONFLICT:
            return _answered(journal, answer, witness=witness, text=parsed.text, size=size)
        number = answer.text.removesuffix("\n")
        if answer.headers.get("content-type") != SIZE_TYPE or not note.is_decimal(number):
            raise UnavailableError("the witness's answer is not one")
        old_size = int(number)
        if old_size > size:
            raise CorruptError(
                f"the witness has seen {old_size} entries of this log, the journal ends at {size}",
                place=f"checkpoint {old_size}",
                kind="rollback",
            )
    raise UnavailableError("the witness moves on faster than we can ask")


def _answered(journal: Cosignable, answer: httpx.Response, *, witness: note.Verifier, text: str, size: int) -> Cosigned:
    match answer.status_code:
        case httpx.codes.OK:
            pass
        case httpx.codes.UNPROCESSABLE_ENTITY:
            raise CorruptError(
                "the witness cannot follow this log from what it has seen", place=f"checkpoint {size}", kind="fork"
            )
        case httpx.codes.NOT_FOUND | httpx.codes.FORBIDDEN:
            raise RefusedError(
                "the witness does not watch this log", code="permission_denied", hint="give it the log's vkey"
            )
        case _:
            raise UnavailableError(f"the witness answered {answer.status_code}")
    lines = note.parse_signatures(answer.text, place="witness's answer")
    for line in lines:
        if (line.name, line.key_id) == (witness.name, witness.key_id):
            if not witness.verifies(line, text):
                raise CorruptError("the witness's cosignature does not verify", place="witness", kind="cosignature")
            journal.add_cosignatures(size, [str(line)])
            return Cosigned(witness=witness.name, size=size, time_s=note.cosigned_at_s(line), line=str(line))
    raise UnavailableError("the witness signed with another key than the one given for it")
