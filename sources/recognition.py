"""Whose a file is, by its name and its beginning."""

from pathlib import Path
from typing import Final

from sources.provider import Provider
from sources.providers import PROVIDERS

HEAD_SIZE_BYTES: Final = 64 * 1024  # enough for the first records of every format


def recognise(path: Path) -> Provider | None:
    """The provider of a file; None when it is nobody's, OSError when it cannot be read."""
    if path.exists() and not path.is_file():
        return None  # a pipe or a socket: opening it would wait for whoever writes there
    with path.open("rb") as stream:
        head = stream.read(HEAD_SIZE_BYTES)
    return next((provider for provider in PROVIDERS if provider.recognise(path, head)), None)


def is_part(path: Path) -> bool:
    """Whether the file belongs to another one's telling, or lies beside histories by rights."""
    return any(provider.is_part(path) for provider in PROVIDERS)
