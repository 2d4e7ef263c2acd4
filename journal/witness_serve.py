"""`polyc witness serve`: a witness of other people's logs, on a TCP port."""

import threading
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from journal.lock import WriterLock
from journal.witness import Witness, create_app
from polyc import note
from polyc.clock import Clock
from polyc.durable import make_private_folder
from polyc.ids import IdSource
from polyc.signing import load_or_create_signer


def open_witness(folder: Path, *, name: str, logs: Sequence[note.Verifier], clock: Clock, ids: IdSource) -> Witness:
    """The witness of this folder; its key is made when there is none. `str(witness.verifier)` is its vkey."""
    make_private_folder(folder)
    signer = load_or_create_signer(folder / "witness.pem", ids)
    return Witness(folder, name=name, signer=signer, logs=logs, clock=clock)


def serve(witness: Witness, *, host: str, port: int, stop: threading.Event | None = None) -> None:
    """Serve until interrupted, or until `stop` is set; UnavailableError when another process serves this witness."""
    lock = WriterLock(witness.folder / "witness.lock", whose="serves this witness")  # two could roll each other back
    server = uvicorn.Server(uvicorn.Config(create_app(witness), host=host, port=port, log_level="warning"))
    if stop is not None:

        def watch() -> None:
            stop.wait()
            server.should_exit = True

        threading.Thread(target=watch, name="witness-stop", daemon=True).start()
    try:
        server.run()
    finally:
        lock.release()
