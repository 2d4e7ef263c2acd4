"""A C2SP witness (c2sp.org/tlog-witness): it cosigns a log's checkpoints only while they grow consistently.

`Witness.add_checkpoint` is the protocol as a pure function of the request and what was cosigned before; `create_app`
puts it behind HTTP so that others may run one for us, and we for them. The record of the latest cosigned checkpoint
is on the disk before the cosignature leaves. `sign-subtree` is optional in the specification and not offered.
"""

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from polyc import merkle, note
from polyc.clock import Clock
from polyc.durable import make_private_folder, write_file
from polyc.errors import CorruptError
from polyc.signing import Signer

PROOF_LINES_MAX: Final = 63  # c2sp.org/tlog-witness, add-checkpoint
REQUEST_SIZE_BYTES_MAX: Final = note.NOTE_SIZE_BYTES_MAX + (PROOF_LINES_MAX + 1) * 64
SIZE_TYPE: Final = "text/x.tlog.size"
_PLACE: Final = "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP answer."""

    status: int
    body: str = ""
    content_type: str = "text/plain; charset=utf-8"


class Witness:
    """A name, a key, the logs it watches, and a folder with the latest cosigned checkpoint of each."""

    def __init__(self, folder: Path, *, name: str, signer: Signer, logs: Sequence[note.Verifier], clock: Clock) -> None:
        self.folder = make_private_folder(folder)
        self.name = name
        self.verifier = note.Verifier(name=name, kind=note.COSIGNATURE, public_key=signer.public_key)
        self._signer = signer
        self._logs = logs
        self._clock = clock
        self._mutex = threading.Lock()  # checking the old size and recording the new one are one step

    def add_checkpoint(self, body: bytes) -> Answer:
        """Answer an add-checkpoint request.

        1. It is one (400). 2. The log is known (404) and signed the checkpoint (403). 3. The old size is not larger
        (400) and is what was cosigned last (409, with that size; 500 when this witness's own record does not verify:
        it then knows nothing to hold the new tree against). 4. The new tree goes on from the old one (422). 5. The
        record is durable, then the cosignature is given.
        """
        # 1.
        try:
            old_size, proof, text = _parse(body)
            parsed = note.parse_note(text, place=_PLACE)
            checkpoint = note.decode_checkpoint(parsed.text, place=_PLACE)
        except CorruptError as error:
            return Answer(status=400, body=f"{error.message}\n")
        # 2.
        keys = [log for log in self._logs if log.name == checkpoint.origin]
        if not keys:
            return Answer(status=404, body="unknown log\n")
        try:
            note.verify_note(parsed, keys, place=_PLACE)
        except CorruptError:
            return Answer(status=403, body="not signed by the log\n")
        # 3.
        if old_size > checkpoint.size:
            return Answer(status=400, body="the old size is larger than the new one\n")
        with self._mutex:
            try:
                latest = self.latest(checkpoint.origin)
            except CorruptError:
                return Answer(status=500, body="the witness's record is damaged\n")
            latest_size = 0 if latest is None else latest.size
            if old_size != latest_size:
                return Answer(status=409, body=f"{latest_size}\n", content_type=SIZE_TYPE)
            # 4.
            old_root = merkle.EMPTY_ROOT if latest is None else latest.root
            if not _grows(old_size, old_root, checkpoint, proof):
                return Answer(status=422, body="not consistent with what was cosigned before\n")
            # 5.
            time_s = self._clock.now_us() // 1_000_000
            line = note.cosign(parsed.text, name=self.name, signer=self._signer, time_s=time_s)
            known = {(key.name, key.key_id) for key in keys}
            kept = [item for item in parsed.signatures if (item.name, item.key_id) in known]
            record = note.Note(text=parsed.text, signatures=(*kept, line))
            write_file(self._file(checkpoint.origin), str(record).encode(), mode=0o600)
        return Answer(status=200, body=str(line))

    def latest(self, origin: str) -> note.Checkpoint | None:
        """The latest checkpoint cosigned of a log; CorruptError when the record is not this witness's own."""
        text = self.latest_note(origin)
        if text is None:
            return None
        checkpoint, _signed = note.open_checkpoint(
            text, origin=origin, verifiers=[self.verifier], place=str(self._file(origin))
        )
        return checkpoint

    def latest_note(self, origin: str) -> str | None:
        """The same as a note with the log's and this witness's signatures."""
        try:
            return self._file(origin).read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return None

    def note_of_hash(self, origin_hash: str) -> str | None:
        """The latest note of the known log whose origin has this SHA-256 (hex)."""
        for log in self._logs:
            if hashlib.sha256(log.name.encode()).hexdigest() == origin_hash:
                return self.latest_note(log.name)
        return None

    def _file(self, origin: str) -> Path:
        return self.folder / f"{hashlib.sha256(origin.encode()).hexdigest()}.checkpoint"


def create_app(witness: Witness) -> Starlette:
    """The witness behind HTTP: POST /add-checkpoint, GET /<origin hash>/checkpoint."""

    async def add_checkpoint(request: Request) -> Response:
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > REQUEST_SIZE_BYTES_MAX:
                    return Response("too large\n", status_code=413)
        except ClientDisconnect:
            return Response(status_code=400)
        answer = await run_in_threadpool(witness.add_checkpoint, bytes(body))
        return Response(answer.body, status_code=answer.status, headers={"content-type": answer.content_type})

    async def checkpoint(request: Request) -> Response:
        text = await run_in_threadpool(witness.note_of_hash, request.path_params["origin_hash"])
        if text is None:
            return Response("never cosigned\n", status_code=404)
        return Response(text, headers={"content-type": "text/plain; charset=utf-8"})

    return Starlette(
        routes=[
            Route("/add-checkpoint", add_checkpoint, methods=["POST"]),
            Route("/{origin_hash}/checkpoint", checkpoint, methods=["GET"]),
        ]
    )


def encode_request(old_size: int, proof: Sequence[bytes], checkpoint: str) -> bytes:
    """The body of an add-checkpoint request."""
    lines = [f"old {old_size}", *(note.encode64(item) for item in proof), "", checkpoint]
    return "\n".join(lines).encode()


def _parse(body: bytes) -> tuple[int, list[bytes], str]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise CorruptError("not UTF-8", place=_PLACE, kind="request") from None
    head, blank, checkpoint = text.partition("\n\n")
    lines = head.split("\n")
    number = lines[0].removeprefix("old ")
    if not blank or number == lines[0] or not note.is_decimal(number):
        raise CorruptError("the old size line is not one", place=_PLACE, kind="request")
    if len(lines) - 1 > PROOF_LINES_MAX:
        raise CorruptError("too many proof lines", place=_PLACE, kind="request")
    proof = [note.decode64(line, place=_PLACE) for line in lines[1:]]
    if any(len(item) != merkle.HASH_SIZE_BYTES for item in proof):
        raise CorruptError("proof lines are 32 bytes each", place=_PLACE, kind="request")
    return int(number), proof, checkpoint


def _grows(old_size: int, old_root: bytes, new: note.Checkpoint, proof: Sequence[bytes]) -> bool:
    if new.size == 0 and new.root != merkle.EMPTY_ROOT:
        return False
    return merkle.verify_consistency(old=old_size, new=new.size, old_root=old_root, new_root=new.root, proof=proof)
