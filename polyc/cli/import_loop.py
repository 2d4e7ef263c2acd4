"""The loop between the importers, which only parse, and the journal, which only keeps.

What `sources` planned is appended with the importer's key; whoever imports participates in it, with Control's key.
A batch's append id derives from its source, so an interrupted import goes on where it stood and a second one of the
same files appends nothing. Cursors are committed only after everything they describe was acknowledged.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from control.local import LocalControl
from control.participation import joined_import
from polyc.appending import Author
from polyc.cli.console import progress
from polyc.cli.deployment import Deployment, Journal
from polyc.cli.grouping import Group
from polyc.ids import PersonaId
from sources import IMPORTS_PARTITION, Cursors, Following, Importer, PlannedConversation, Report


def import_paths(deployment: Deployment, paths: list[Path], *, final: bool, persona: PersonaId) -> Report:
    """Append what is new in these files, let the persona participate in it, and say what was done."""
    with closing(Cursors.open(deployment.root.sources / "cursors.sqlite")) as cursors:
        return ImportLoop(deployment, cursors, persona=persona).look(paths, final=final)


class ImportLoop:
    """Looks at files, again and again, for one persona."""

    def __init__(
        self, deployment: Deployment, cursors: Cursors, *, persona: PersonaId, following: Following | None = None
    ) -> None:
        """`following`: what a watcher remembers of the files that are being written."""
        self._following = following
        self._deployment = deployment
        self._cursors = cursors
        self._persona = persona
        self._past = _Past(deployment.journal)
        self._importer = deployment.author("importer")
        self._control = deployment.control()
        self._control.ensure_persona(persona)

    def look(self, paths: Sequence[Path], *, final: bool) -> Report:
        """One look at the files; the cursors are kept at its end. UnavailableError while another import runs."""
        try:
            return self._look(paths, final=final)
        except BaseException:
            self._cursors.forget()  # they say of files that they were read whose events are not in the journal
            raise

    def _look(self, paths: Sequence[Path], *, final: bool) -> Report:
        importer = Importer(self._cursors, past=self._past, following=self._following)
        survey = importer.survey(paths, now_us=self._deployment.clock.now_us(), final=final)
        appending = _Appending(
            self._deployment, importer, author=self._importer, control=self._control, persona=self._persona
        )
        with progress("importing", total=survey.changed_size_bytes) as bar:
            sizes = {found.path: found.size_bytes for found in survey.changed}
            for planned in importer.plan(survey):
                appending.take(planned)
                bar.advance(sizes.pop(planned.path, 0))
        appending.quarantined()
        importer.finish()
        return importer.report


class _Appending:
    """Appends what was planned in groups; a conversation is settled when the group that ends it is durable."""

    def __init__(
        self, deployment: Deployment, importer: Importer, *, author: Author, control: LocalControl, persona: PersonaId
    ) -> None:
        self._author = author
        self._control = control
        self._group = Group(deployment.journal, clock=deployment.clock, ids=deployment.ids)
        self._importer = importer
        self._persona = persona
        self._leaves: dict[str, bytes] = {}
        self._ended: list[PlannedConversation] = []

    def take(self, planned: PlannedConversation) -> None:
        """Add one conversation's batches in order; they are made while they are asked for."""
        if planned.is_recovered:  # the import that opened it may have ended before the persona joined
            self._control.join_imported(planned.partition, self._persona)
        for batch in planned.batches():
            head = self._group.add(
                self._author,
                planned.partition,
                batch.drafts,
                append_id=batch.append_id,
                new_incarnation=batch.new_incarnation,
            )
            if batch.opens:  # participation begins anew with each incarnation (ruling 15)
                joined, append_id = joined_import(head.partition, head.incarnation, self._persona)
                self._group.add(self._control.context.control, head.partition, [joined], append_id=append_id)
            if self._group.is_full:
                self._flush()
        self._ended.append(planned)

    def quarantined(self) -> None:
        """Flush what is left, and tell what could not be read."""
        self._flush()
        for batch in self._importer.quarantined():
            self._group.add(self._author, IMPORTS_PARTITION, batch.drafts, append_id=batch.append_id)
            if self._group.is_full:
                self._group.flush()
        self._group.flush()

    def _flush(self) -> None:
        self._leaves |= {partition: head.leaf for partition, head in self._group.flush().items()}
        for planned in self._ended:
            self._importer.settle(planned, leaf=self._leaves.get(planned.partition))
        for planned in self._ended:
            self._leaves.pop(planned.partition, None)
        self._ended.clear()


class _Past:
    """What the importer wants to know of the journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def leaf(self, partition: str) -> bytes | None:
        """The leaf at the partition's head."""
        head = self._journal.head(partition)
        return None if head is None else head.leaf

    def events(self, partition: str) -> Iterator[tuple[int, bytes | None]]:
        """What the partition's current incarnation holds."""
        return ((record.event_type, record.payload) for record in self._journal.read(partition))
