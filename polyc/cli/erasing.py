"""`polyc erase`: take content out of the journal and out of every table, and leave the honest record that it was there.

Headers, digests and proofs stay: the log can still be verified, only the content is gone. What backups and archives
hold elsewhere is not reached; SECURITY.md says so.
"""

from argparse import Namespace
from collections.abc import Iterable

from artifacts.gc import collect
from artifacts.store import DirectoryStore
from control.carrying import carry
from facts.payments import CONVERSATION_PREFIX
from journal.erasure import erase
from polyc.cli.console import note
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.cli.projecting import project, projector_of
from polyc.cli.spending import spending_of
from polyc.entry import Record
from polyc.errors import CorruptError, RefusedError
from polyc.ids import IMPORTED_PREFIX, check_partition
from projector.erasure import Erased, Found, needles_of, prove_gone, prove_gone_in_journal


def run(arguments: Namespace) -> int:
    """Erase one event or a whole conversation, project, and sweep what nobody needs any more."""
    partition, position = check_partition(arguments.partition), arguments.position
    with opened(root_of(arguments)) as deployment:
        head = deployment.journal.partition_head(partition)
        if head is None:
            raise RefusedError("no such conversation", code="not_found")
        projector = projector_of(deployment)
        needles: list[bytes] = []
        if arguments.prove_gone:
            project(deployment)  # the tables must show what is there before one can show that it is gone
            generation, tables = projector.artifacts.latest(), projector.meaning.tables
            needles = needles_of(generation, tables, partition=partition, position=position)
            if position is not None:
                needles = said_here_alone(needles, deployment.journal.read(partition), position=position)
        carry_spending(deployment, partition)
        author = deployment.author("control")
        erase(author, partition=partition, incarnation=head.incarnation, position=position, reason=arguments.reason)
        project(deployment)
        store = DirectoryStore(deployment.root.artifacts)
        collect(store, keys=deployment.journal.keyring, clock=deployment.clock, keep_generations=1)
        what = partition if position is None else f"{partition} at {position}"
        note(f"{what} is erased here; copies in backups and archives are not reached")
        if arguments.prove_gone:
            erased = Erased(partition, position)
            found = prove_gone(store, needles, erased=erased)
            found += prove_gone_in_journal(deployment.journal, needles, erased)
            tell_proof([place for place in found if place.partition in ("", partition)], needles)
    return 0


def carry_spending(deployment: Deployment, partition: str) -> None:
    """What the conversation spent stays counted: it goes on record beside it before its own words are gone."""
    if not partition.startswith(CONVERSATION_PREFIX) or partition.startswith(IMPORTED_PREFIX):
        return
    context, spending = deployment.control().context, spending_of(deployment)
    try:
        carried = carry(context, spending, partition)
    except CorruptError as poison:  # it may be what must go
        note(f"polyc: warning: {poison.message}: only payments that are on record in spend-… go on counting")
        return
    if carried:
        note(f"{carried} of its payments are on record in spend-… from now on, so that budgets go on counting them")


def said_here_alone(needles: list[bytes], records: Iterable[Record], *, position: int) -> list[bytes]:
    """The needles that no other event of the conversation holds too: an id or a path stays where others name it."""
    left = needles
    for record in records:
        if record.position != position and record.payload is not None:
            left = [needle for needle in left if needle not in record.payload]
    return left


def tell_proof(found: list[Found], needles: list[bytes]) -> None:
    """What the search for the erased content says; CorruptError when it is still kept."""
    if found:
        raise CorruptError(
            "erased content is still kept",
            place=found[0].file,
            kind="erasure",
            hint="a running query may hold a lease on older tables for two minutes: try polyc erase again then",
        )
    if needles:
        note(f"{len(needles)} pieces of it were looked for in the journal and in every artifact: none is there")
    else:
        note("no table held a text of it that is long enough to look for; search holds nothing of it either")
