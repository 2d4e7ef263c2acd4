"""`polyc witness …`: somebody else who remembers how long the log was, so that its end cannot be cut off unseen."""

from argparse import Namespace
from pathlib import Path

from journal.witness_serve import open_witness
from journal.witness_serve import serve as serve_witness
from journal.witnessing import ask as ask_witness
from polyc import note as notes
from polyc.cli.console import note
from polyc.cli.deployment import opened, root_of
from polyc.cli.serving import stop_event
from polyc.clock import SystemClock
from polyc.ids import SystemIds


def vkey(arguments: Namespace) -> int:
    """Print the log's verifier key, which a witness must be given."""
    policy = root_of(arguments).policy()
    print(notes.Verifier(name=policy.origin, kind=notes.ED25519, public_key=bytes.fromhex(policy.log_key)))
    return 0


def ask(arguments: Namespace) -> int:
    """Have a witness cosign the log's present end; the cosignature is kept in the journal."""
    with opened(root_of(arguments)) as deployment:
        done = ask_witness(deployment.journal, url=arguments.url, witness=notes.parse_verifier(arguments.witness))
    note(f"{done.witness} cosigned {done.size:,} entries")
    return 0


def serve(arguments: Namespace) -> int:
    """Be a witness for these logs."""
    logs = [notes.parse_verifier(text) for text in arguments.log]
    witness = open_witness(Path(arguments.folder), name=arguments.name, logs=logs, clock=SystemClock(), ids=SystemIds())
    print(witness.verifier, flush=True)
    serve_witness(witness, host="127.0.0.1", port=arguments.port, stop=stop_event())
    return 0
