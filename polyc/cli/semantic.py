"""`polyc semantic enable|disable|sync|rebuild|status`: the opt-in to search by meaning.

Lexical search never waits for any of this. Vectors are made for the search packs of the newest generation, signed with
the projector's key, and kept beside the generations; text that was embedded before is not embedded again.
"""

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from artifacts.newest import Newest
from artifacts.store import DirectoryStore
from polyc.cli.console import note, progress
from polyc.cli.deployment import Deployment, opened, root_of
from polyc.cli.output import write_object
from polyc.errors import PolycError, RefusedError
from polyc.signing import load_signer
from search.settings import SemanticSettings, load_settings, make_embedder, save_settings, settings_file
from search.space import Embedder

if TYPE_CHECKING:  # needs numpy: loaded with the extra
    from search.build.vectors import VectorBuild


def enable(arguments: Namespace) -> int:
    """Write the settings, then make the vectors unless told to leave that for later."""
    settings = SemanticSettings(
        executor=arguments.executor,
        url=arguments.url,
        model=arguments.model,
        space_id=arguments.space_id,
        dimensions=arguments.dimensions,
        key_variable=arguments.key_variable,
    )
    embedder = make_embedder(settings)
    if settings.executor == "external":
        note(f"polyc: note: what people and models said will be sent to {settings.url}")
    with opened(root_of(arguments)) as deployment:
        save_settings(deployment.root, settings)
        if not arguments.later:
            _sync(deployment, embedder)
    return 0


def disable(arguments: Namespace) -> int:
    """Remove the settings; vectors stay until `polyc semantic rebuild` or their packs go."""
    settings_file(root_of(arguments)).unlink(missing_ok=True)
    return 0


def sync(arguments: Namespace) -> int:
    """Make the vectors that are missing."""
    with opened(root_of(arguments)) as deployment:
        _sync(deployment, _enabled(deployment))
    return 0


def rebuild(arguments: Namespace) -> int:
    """Forget this space's vectors and make them anew: what a drifted executor needs."""
    with opened(root_of(arguments)) as deployment:
        embedder = _enabled(deployment)
        _build(deployment, embedder).sweep(())
        _sync(deployment, embedder)
    return 0


def status(arguments: Namespace) -> int:
    """Say whether it is enabled, with which space, and how much of the archive has its vectors."""
    with opened(root_of(arguments)) as deployment:
        told = _status(deployment)
    if arguments.json:
        write_object(told)
        return 0
    for name, value in told.items():
        print(f"{name.replace('_', ' '):<16} {value}")
    return 0


def _status(deployment: Deployment) -> dict[str, Any]:
    settings = load_settings(deployment.root)
    if settings is None:
        return {"enabled": False}
    told: dict[str, Any] = {"enabled": True, "executor": settings.executor}
    try:
        embedder = make_embedder(settings)
    except PolycError as error:
        return told | {"state": "unusable", "reason": error.message}
    packs = _packs(deployment)
    build = _build(deployment, embedder)
    missing = build.missing(packs)
    waiting, every = build.coverage(packs)
    return told | {
        "space": embedder.space.space_id,
        "dimensions": embedder.space.dimensions,
        "packs": len(packs),
        "missing": len(missing),
        "texts": every,
        "texts_missing": waiting,
        "coverage": f"{100 * (every - waiting) // every if every else 100} %",
        "state": "ready" if not missing else "incomplete",
    }


def _sync(deployment: Deployment, embedder: Embedder) -> None:
    build = _build(deployment, embedder)
    packs = _packs(deployment)
    with progress("embedding") as bar:

        def moved(done: int, total: int) -> None:
            bar.expect(total)
            bar.reach(done)

        embedded = build.catch_up(packs, progress=moved)
    build.sweep(packs)
    note(f"{embedded:,} texts embedded, {len(packs)} search packs have their vectors")


def _build(deployment: Deployment, embedder: Embedder) -> "VectorBuild":
    """The builder; its signature is judged at the log's size now."""
    from search.build.vectors import VectorBuild

    signer = load_signer(deployment.root.keys / "projector.pem")
    store = DirectoryStore(deployment.root.artifacts)
    return VectorBuild(store, embedder, signer, frontier=deployment.journal.size())


def _packs(deployment: Deployment) -> tuple[str, ...]:
    store = DirectoryStore(deployment.root.artifacts)
    newest = Newest(store, keys=deployment.journal.keyring, origin=deployment.journal.origin)
    return newest.latest().body.search


def _enabled(deployment: Deployment) -> Embedder:
    settings = load_settings(deployment.root)
    if settings is None:
        raise RefusedError("semantic search is not enabled", code="failed_precondition", hint="polyc semantic enable")
    return make_embedder(settings)
