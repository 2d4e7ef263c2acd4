"""`polyc witness …`: somebody else who remembers how long the log was, so that its end cannot be cut off unseen."""

from argparse import Namespace
from pathlib import Path

from journal.witness_serve import open_witness
from journal.witness_serve import serve as serve_witness
from journal.witnessing import ask as ask_witness
from polyc import note as notes
from polyc.cli.console import note
from polyc.cli.deployment import opened, root_of
from polyc.cli.pins import read_only
from polyc.cli.serving import stop_event
from polyc.cli.supervising import check_free
from polyc.cli.vkeys import log_key, witness_key
from polyc.clock import SystemClock
from polyc.errors import RefusedError
from polyc.ids import SystemIds


def vkey(arguments: Namespace) -> int:
    """Print the log's verifier keys, which a witness must be given: one, or two while a rotation's overlap lasts."""
    with read_only(root_of(arguments)) as reader:
        acting = reader.keyring().of_role("log", index=reader.size())
    for key in acting:
        print(notes.Verifier(name=reader.origin, kind=notes.ED25519, public_key=key.public_key))
    return 0


def ask(arguments: Namespace) -> int:
    """Have a witness cosign the log's present end; the cosignature is kept in the journal."""
    with opened(root_of(arguments)) as deployment:
        done = ask_witness(deployment.journal, url=arguments.url, witness=witness_key(arguments.witness))
    note(f"{done.witness} cosigned {done.size:,} entries")
    return 0


def serve(arguments: Namespace) -> int:
    """Be a witness for these logs."""
    logs = [log_key(text) for text in arguments.log]
    if not notes.is_name(arguments.name):
        raise RefusedError("a witness's name has no spaces and no plus", hint="example.org/w")
    check_free(arguments.port)
    witness = open_witness(Path(arguments.folder), name=arguments.name, logs=logs, clock=SystemClock(), ids=SystemIds())
    print(witness.verifier, flush=True)
    serve_witness(witness, host="127.0.0.1", port=arguments.port, stop=stop_event())
    return 0
