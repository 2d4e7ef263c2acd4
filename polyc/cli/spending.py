"""`polyc spending`: what a persona, a wallet or a conversation has spent, by the fold that fills `payments`.

It reads the journal, not the tables: at level V1h (`journal.vouched`), in whatever state the turns are, so that what
a crash left unpublished is counted. Imported conversations settle nothing (ruling 14) and are not read.
"""

from argparse import Namespace
from datetime import UTC, datetime

from control.receipt_trust import load_receipt_signers
from facts.payments import CONVERSATION_PREFIX, SPEND_PREFIX, Spending, totals, window_start
from facts.trust import Trust
from journal.vouched import read_vouched
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.cli.output import chosen_format, write_rows
from polyc.errors import RefusedError
from polyc.ids import IMPORTED_PREFIX, check_partition, check_persona

COLUMNS = ("asset", "network", "settled_base_units", "reserved_base_units", "spent_base_units", "payments")


def run(arguments: Namespace) -> int:
    """Print one row an asset and network; amounts are exact decimal text."""
    persona = check_persona(arguments.persona) if arguments.persona else None
    partition = check_partition(arguments.conversation) if arguments.conversation else None
    if arguments.window_s is not None and arguments.window_s < 0:
        raise RefusedError("a window is 0 seconds or longer")
    with opened(root_of(arguments)) as deployment:
        spending = spending_of(deployment)
        since = None
        if arguments.window_s is not None:
            since = window_start(datetime.fromtimestamp(deployment.clock.now_us() / 1_000_000, UTC), arguments.window_s)
    paid = spending.payments(persona=persona, payer=arguments.wallet, partition=partition, since=since)
    settled = totals(paid)
    reserved = spending.reserved(persona=persona, wallet=arguments.wallet, partition=partition)
    rows = [
        (
            *key,
            str(settled.get(key, 0)),
            str(reserved.get(key, 0)),
            str(settled.get(key, 0) + reserved.get(key, 0)),
            sum((fact.asset, fact.network) == key for fact in paid),
        )
        for key in sorted(settled.keys() | reserved.keys())
    ]
    write_rows(COLUMNS, rows, form=chosen_format(arguments.format))
    return 0


def spending_of(deployment: Deployment) -> Spending:
    """The spending of a deployment, as of now; CorruptError where an author's own signature does not hold."""
    journal = deployment.journal
    keys = journal.keyring()
    spending = Spending(Trust(keys=keys, receipt_signers=load_receipt_signers(deployment.root)))
    for head in journal.partitions():
        live = head.partition.startswith(CONVERSATION_PREFIX) and not head.partition.startswith(IMPORTED_PREFIX)
        if live or head.partition.startswith(SPEND_PREFIX):
            spending.take(read_vouched(journal, head.partition, keys=keys))
    return spending
