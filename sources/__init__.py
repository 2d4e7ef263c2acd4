"""Foreign agent histories → events. Parsing only: nothing here appends, signs, reads a clock or opens the journal.

How the importing loop uses it (`polyc/cli/import_loop.py`)::

    cursors = Cursors.open(root.sources / "cursors.sqlite")      # a rebuildable cache
    importer = Importer(cursors, past=past)
    paths = given or default_paths(Path.home(), os.environ)
    survey = importer.survey(paths, now_us=clock.now_us(), final=False)   # from here on no other import runs
    for planned in importer.plan(survey):                        # one conversation after the other
        for batch in planned.batches():                          # lazily; at most 64 drafts; may be none at all
            author.append(planned.partition, batch.drafts,
                          append_id=batch.append_id, new_incarnation=batch.new_incarnation)
            if batch.opens:                                      # an incarnation begins: participation starts afresh
                control.join_imported(planned.partition, persona)
        importer.settle(planned, leaf=head.leaf)                 # only after every batch was acknowledged
    for batch in importer.quarantined():                         # `import_quarantined` events
        author.append(IMPORTS_PARTITION, batch.drafts, append_id=batch.append_id)
    importer.finish()                                            # commits the cursors; report: importer.report

`past` answers what the journal holds (`Past`): the leaf at a partition's head, and `(event_type, payload)` of its
current incarnation. The events are asked for when the cursors do not know the conversation, or know it at another
leaf: they were lost, an import was interrupted, or the journal was restored. When `finish` is not reached,
`cursors.forget()`. A watcher hands the same `Following` to each importer: files that grow are then read on where they
stood.

The laws:
1. The events of a conversation are a pure function of its files (and of which other files hold copies of its
   records): same ids (UUIDv8), same bytes. What the journal has is compared with what the files say now: when it is
   a prefix, the rest is appended; when it is not (rewritten, shortened, an earlier owner of copied records came,
   a turn that had closed grew), everything is appended as a new incarnation. There is no third case.
2. A batch has 64 events, the last of a file fewer. Its append id derives from the incarnation, its place and all that
   was told by its end: the journal's door recognises a repeated append.
3. A turn is told when its end is known. What stands after the last end is told (without an end, so that no table
   shows it) once the file has been still for five minutes or the caller says `final`.
4. A line that cannot be read is quarantined with file, offset and reason, and tried again when the file changes;
   the torn last line is not read at all until it is whole.
5. Secrets, home folders and e-mail addresses are redacted where an event is made (`sources.redaction`).
"""

from typing import TYPE_CHECKING

from sources.cursors import Cursors
from sources.following import Following
from sources.importer import IMPORTS_PARTITION, Importer
from sources.places import default_paths, standard_places
from sources.report import Report
from sources.surveying import Survey

if TYPE_CHECKING:
    from sources.batches import Batch
    from sources.planning import PlannedConversation

__all__ = [
    "IMPORTS_PARTITION",
    "Batch",
    "Cursors",
    "Following",
    "Importer",
    "PlannedConversation",
    "Report",
    "Survey",
    "default_paths",
    "standard_places",
]


def __getattr__(name: str) -> object:
    """What a plan is made of is loaded when it is asked for: a look at the files needs no parser."""
    if name == "Batch":
        from sources.batches import Batch  # noqa: PLC0415 see above

        return Batch
    if name == "PlannedConversation":
        from sources.planning import PlannedConversation  # noqa: PLC0415 see above

        return PlannedConversation
    raise AttributeError(name)
