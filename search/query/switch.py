"""The semantic side of a running edge: follows the settings, so that enabling and disabling need no restart."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artifacts.store import Store
from polyc.dataroot import DataRoot
from polyc.errors import PolycError
from polyc.keyring import KeyRing
from search.settings import load_settings, make_embedder, settings_file

if TYPE_CHECKING:
    from search.query.semantic_lane import SemanticIndex


class SemanticSwitch:
    """Gives the index of the enabled executor; loads an executor once for each version of the settings."""

    def __init__(self, root: DataRoot, store: Store, keys: Callable[[], KeyRing]) -> None:
        self._root = root
        self._store = store
        self._keys = keys
        self._version = 0
        self._index: SemanticIndex | None = None

    def index(self) -> "SemanticIndex | None":
        """The index, or None while semantic search is disabled or its executor cannot be used."""
        try:
            version = settings_file(self._root).stat().st_mtime_ns
        except FileNotFoundError:
            version = 0
        if version != self._version:
            self._version, self._index = version, self._load()
        return self._index

    def _load(self) -> "SemanticIndex | None":
        try:
            settings = load_settings(self._root)
            if settings is None:
                return None
            from search.query.semantic_lane import SemanticIndex  # noqa: PLC0415 numpy is loaded by whoever enables it

            return SemanticIndex(self._store, self._keys, make_embedder(settings))
        except PolycError:  # lexical search goes on; `polyc semantic status` says what is wrong
            return None
