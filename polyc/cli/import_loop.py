"""The loop between the importers, which only parse, and the journal, which only keeps.

What `sources` planned is appended with the importer's key; whoever imports participates in it, with Control's key.
A batch's append id derives from its source, so an interrupted import goes on where it stood and a second one of the
same files appends nothing. Cursors are committed only after everything they describe was acknowledged.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from polyc.cli.console import progress
from polyc.cli.deployment import Deployment
from polyc.cli.grouping import Group
from polyc.ids import PersonaId
from sources import IMPORTS_PARTITION, Cursors, Importer, PlannedConversation, Report


def import_paths(deployment: Deployment, paths: list[Path], *, final: bool, persona: PersonaId) -> Report:
    """Append what is new in these files, let the persona participate in it, and say what was done."""
    deployment.control().ensure_persona(persona)
    with closing(Cursors.open(deployment.root.sources / "cursors.sqlite")) as cursors:
        return import_round(deployment, cursors, paths, final=final, persona=persona)


def import_round(
    deployment: Deployment, cursors: Cursors, paths: list[Path], *, final: bool, persona: PersonaId
) -> Report:
    """One look at the files; the cursors are committed at its end."""
    importer = Importer(cursors, past=lambda partition: past_of(deployment, partition))
    survey = importer.survey(paths, now_us=deployment.clock.now_us(), final=final)
    loop = _Loop(deployment, importer, persona=persona)
    with progress("importing", total=survey.changed_size_bytes) as bar:
        sizes = {found.path: found.size_bytes for found in survey.changed}
        for planned in importer.plan(survey):
            loop.take(planned)
            bar.advance(sizes.pop(planned.path, 0))
    loop.quarantined()
    importer.finish()
    return importer.report


class _Loop:
    """Appends what was planned in groups; a conversation is settled when the group that ends it is durable."""

    def __init__(self, deployment: Deployment, importer: Importer, *, persona: PersonaId) -> None:
        author = deployment.author("importer")
        self._author = author
        self._group = Group(author, deployment.journal, clock=deployment.clock, ids=deployment.ids)
        self._importer = importer
        self._control = deployment.control()
        self._persona = persona
        self._opened: list[str] = []
        self._ended: list[PlannedConversation] = []

    def take(self, planned: PlannedConversation) -> None:
        """Add one conversation's batches in order; they are made while they are asked for."""
        for batch in planned.batches():
            self._group.add(planned.partition, batch)
            if batch.opens:
                self._opened.append(planned.partition)
            if self._group.is_full:
                self._flush()
        self._ended.append(planned)

    def quarantined(self) -> None:
        """Flush what is left, and tell what could not be read."""
        self._flush()
        for batch in self._importer.quarantined():
            self._author.append(IMPORTS_PARTITION, batch.drafts, append_id=batch.append_id)

    def _flush(self) -> None:
        self._group.flush()
        for partition in self._opened:  # participation begins anew with each incarnation (ruling 15)
            self._control.join_imported(partition, self._persona)
        for planned in self._ended:
            self._importer.settle(planned)
        self._opened, self._ended = [], []


def past_of(deployment: Deployment, partition: str) -> Iterator[tuple[int, bytes | None]] | None:
    """What the journal holds of the partition's current incarnation; None when it never heard of it."""
    if deployment.journal.head(partition) is None:
        return None
    return ((record.event_type, record.payload) for record in deployment.journal.read(partition))
