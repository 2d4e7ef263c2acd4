"""Whether semantic search is enabled, and with which executor: `semantic.json` in the data root.

    {"executor": "builtin"}                                      MiniLM, English
    {"executor": "builtin", "model": "multilingual-e5-small"}    a hundred languages
    {"executor": "external", "url": "http://…/v1/embeddings", "model": "…", "space_id": "…", "dimensions": 384,
     "key_variable": "EMBEDDINGS_KEY"}

No file: disabled. A changed executor is another space: its vectors are made anew beside the old ones, never mixed.
"""

from pathlib import Path
from typing import Final, Literal

import msgspec

from polyc.dataroot import DataRoot
from polyc.durable import write_file
from polyc.errors import RefusedError
from search.space import Embedder, Space

SETTINGS_FILE: Final = "semantic.json"
_DIMENSIONS_MAX: Final = 8192


class SemanticSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The file's content."""

    executor: Literal["builtin", "external"] = "builtin"
    url: str | None = None
    model: str | None = None
    space_id: str | None = None
    dimensions: int | None = None
    key_variable: str | None = None


def settings_file(root: DataRoot) -> Path:
    """Where the settings lie."""
    return root.path / SETTINGS_FILE


def load_settings(root: DataRoot) -> SemanticSettings | None:
    """The settings, or None when semantic search is disabled."""
    try:
        return msgspec.json.decode(settings_file(root).read_bytes(), type=SemanticSettings)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        raise RefusedError(
            f"{SETTINGS_FILE} cannot be read", code="failed_precondition", hint="polyc semantic enable writes it anew"
        ) from None


def save_settings(root: DataRoot, settings: SemanticSettings) -> None:
    """Enable semantic search with these settings."""
    write_file(settings_file(root), msgspec.json.encode(settings) + b"\n", mode=0o600)


BUILTIN_MODELS: Final = ("minilm", "multilingual-e5-small")


def _builtin(model: str) -> Embedder:
    if model == BUILTIN_MODELS[0]:
        from search.minilm import MiniLM  # noqa: PLC0415 an extra: loaded when it is asked for

        return MiniLM()
    if model == BUILTIN_MODELS[1]:
        from search.multilingual import MultilingualE5  # noqa: PLC0415 the same

        return MultilingualE5()
    raise RefusedError("no such built-in model", hint=" or ".join(BUILTIN_MODELS))


def make_embedder(settings: SemanticSettings) -> Embedder:
    """The executor of the settings; UnavailableError when it is not installed, RefusedError when it is not declared."""
    if settings.executor == "builtin":
        return _builtin(settings.model or BUILTIN_MODELS[0])
    from search.http_embedder import HttpEmbedder  # noqa: PLC0415 the same

    if not (settings.url and settings.model and settings.space_id and settings.dimensions):
        raise RefusedError("an external executor needs url, model, space id and dimensions")
    if not settings.url.startswith(("http://", "https://")) or not 0 < settings.dimensions <= _DIMENSIONS_MAX:
        raise RefusedError("the external executor's url or dimensions are out of bounds")
    space = Space(settings.space_id, settings.dimensions)
    return HttpEmbedder(url=settings.url, model=settings.model, space=space, key_variable=settings.key_variable)
