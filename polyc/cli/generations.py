"""`polyc generations …` and `polyc gc`: what was published, what changed, what nobody needs any more."""

from argparse import Namespace
from typing import Any

from artifacts.gc import collect
from artifacts.inspect import diff_generations, list_generations, show_generation
from artifacts.store import DirectoryStore
from polyc.cli.console import note
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.cli.output import chosen_format, write_object, write_rows
from polyc.errors import RefusedError


def listed(arguments: Namespace) -> int:
    """List the generations that are kept."""
    with opened(root_of(arguments)) as deployment:
        rows = list_generations(DirectoryStore(deployment.root.artifacts), keys=deployment.journal.keyring)
    columns = tuple(rows[0]) if rows else ("generation",)
    write_rows(columns, [tuple(row[name] for name in columns) for row in rows], form=chosen_format(arguments.format))
    return 0


def show(arguments: Namespace) -> int:
    """Print one generation's manifest as JSON, verified."""
    with opened(root_of(arguments)) as deployment:
        store = DirectoryStore(deployment.root.artifacts)
        _check_kept(store, deployment, arguments.number)
        write_object(show_generation(store, arguments.number, keys=deployment.journal.keyring))
    return 0


def diff(arguments: Namespace) -> int:
    """Print what changed from one generation to another as JSON."""
    with opened(root_of(arguments)) as deployment:
        store = DirectoryStore(deployment.root.artifacts)
        _check_kept(store, deployment, arguments.before, arguments.after)
        difference: dict[str, Any] = diff_generations(
            store, arguments.before, arguments.after, keys=deployment.journal.keyring
        )
    write_object(difference)
    return 0


def gc(arguments: Namespace) -> int:
    """Delete what no kept generation and no lease needs, or only list it."""
    with opened(root_of(arguments)) as deployment:
        store = DirectoryStore(deployment.root.artifacts)
        collected = collect(store, clock=deployment.clock, keys=deployment.journal.keyring, dry_run=arguments.dry_run)
    for name in collected.deleted:
        print(name)
    verb = "would be" if arguments.dry_run else "were"
    note(f"{len(collected.deleted)} objects ({collected.freed_bytes:,} bytes) {verb} deleted, {collected.kept} kept")
    return 0


def _check_kept(store: DirectoryStore, deployment: Deployment, *numbers: int) -> None:
    kept = {row["generation"] for row in list_generations(store, keys=deployment.journal.keyring)}
    for number in numbers:
        if number not in kept:
            raise RefusedError(f"no generation {number}", code="not_found", hint="polyc generations list")
