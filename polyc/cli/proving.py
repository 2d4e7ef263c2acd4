"""`polyc prove` and `polyc receipt verify`: one small file that shows, offline, what the log said at one position.

A result row of any query names its entry: partition, position and source_incarnation. Whoever has the policy file and
the receipt needs neither the journal nor us.
"""

import sys
from argparse import Namespace
from pathlib import Path

from journal.receipt import RECEIPT_SIZE_BYTES_MAX, verify_receipt
from journal.trust_policy import parse_trust_policy
from polyc.cli.console import note
from polyc.cli.deployment import root_of
from polyc.cli.output import write_object
from polyc.cli.people import rfc3339_of_us
from polyc.cli.pins import read_only
from polyc.cli.verifying import policy_of
from polyc.cli.vkeys import witness_key
from polyc.durable import create_file
from polyc.errors import RefusedError
from polyc.ids import check_partition
from polyc.vocabulary import BY_CODE


def prove(arguments: Namespace) -> int:
    """Write the receipt of one entry."""
    partition = check_partition(arguments.partition)
    incarnation = None if arguments.incarnation is None else bytes_of_hex(arguments.incarnation, what="incarnation")
    with read_only(root_of(arguments)) as reader:  # a copy without keys proves what it holds as well
        receipt = reader.receipt(partition, arguments.position, incarnation=incarnation)
    if arguments.out == "-":
        sys.stdout.write(receipt)
        return 0
    target = Path(arguments.out or f"{partition}-{arguments.position}.tlog-proof")
    if not create_file(target, receipt.encode()):
        raise RefusedError(f"{target} exists", code="already_exists", hint="--out names another file, - is stdout")
    note(f"{target}: {len(receipt):,} bytes; polyc receipt verify {target} --policy FILE checks it offline")
    return 0


def verify(arguments: Namespace) -> int:
    """Check a receipt against a policy file, offline."""
    data = sys.stdin.buffer.read(RECEIPT_SIZE_BYTES_MAX + 1) if arguments.file == "-" else content_of(arguments.file)
    if len(data) > RECEIPT_SIZE_BYTES_MAX:
        raise RefusedError("a receipt is smaller than that")
    witnesses = [witness_key(vkey) for vkey in arguments.witness]
    trust = None
    if arguments.trust is not None:
        trust = parse_trust_policy(content_of(arguments.trust), place=arguments.trust)
    proved = verify_receipt(data, policy=policy_of(arguments.policy), witnesses=witnesses, trust=trust)
    kind = BY_CODE[proved.event_type].kind if proved.event_type in BY_CODE else f"type {proved.event_type}"
    write_object(
        {
            "origin": proved.origin,
            "partition": proved.partition,
            "source_incarnation": proved.incarnation.hex(),
            "position": proved.position,
            "index": proved.index,
            "size": proved.size,
            "recorded_at": rfc3339_of_us(proved.recorded_at_us),
            "event_type": kind,
            "role": proved.role,
            "key_id": proved.key_id.hex(),
            "payload_digest": proved.payload_digest.hex(),
            "witnesses": proved.witnesses,
        }
    )
    return 0


def content_of(name: str) -> bytes:
    """A file's bytes."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise RefusedError(f"{name} cannot be read: {error.strerror}", code="not_found") from None


def bytes_of_hex(text: str, *, what: str) -> bytes:
    """The bytes of a hex argument."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise RefusedError(f"{what} is given in hex digits") from None
