"""Exports of chat services: one document of all conversations, plain or in a zip, read one conversation at a time.

A zip holds `conversations.json` or `conversations-000.json` and more; other members (images, user data) are not
looked at. Of two conversations of the same id the later one is the update and counts.
"""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from sources.json_documents import ElementError, elements
from sources.lines import BadLineError, Quarantined, SetAside, object_decoder

_decode: Final = object_decoder(dict[str, Any])
HEAD_SIZE_BYTES: Final = 64 * 1024

Conversation = dict[str, Any]


class Element(msgspec.Struct, frozen=True):
    """A conversation as it stands in the export: the zip's member (empty: the file itself), offset and bytes."""

    member: str
    offset: int
    data: bytes

    def decode(self) -> Conversation:
        """What it says."""
        return _decode(self.data)


def beginning(path: Path, head: bytes) -> bytes:
    """The beginning of the document of conversations; empty when a zip has none."""
    if not head.startswith(b"PK"):
        return head
    try:
        with _members(path) as (archive, names):
            if not names:
                return b""
            with archive.open(names[0]) as stream:
                return stream.read(HEAD_SIZE_BYTES)
    except (OSError, zipfile.BadZipFile):
        return b""


def conversations(
    path: Path, name_of: Callable[[Conversation], str | None], *, set_aside: SetAside
) -> Iterator[tuple[str, Element]]:
    """The conversations with their names; of two of the same name the later one.

    The file is read twice, so that never more than one conversation is held.
    """
    last: dict[str, tuple[str, int]] = {}
    for element in _all(path, set_aside=set_aside):
        name = _name(element, name_of, set_aside=set_aside)
        if name is not None:
            last[name] = (element.member, element.offset)
    for element in _all(path, set_aside=lambda _bad: None):
        name = _name(element, name_of, set_aside=lambda _bad: None)
        if name is not None and last[name] == (element.member, element.offset):
            yield name, element


def _name(element: Element, name_of: Callable[[Conversation], str | None], *, set_aside: SetAside) -> str | None:
    try:
        return name_of(element.decode())
    except BadLineError as bad:
        set_aside(Quarantined(element.offset, len(element.data), bad.reason, ""))
        return None


def _all(path: Path, *, set_aside: SetAside) -> Iterator[Element]:
    for member in _member_names(path):
        with _document(path, member) as stream:
            try:
                for offset, data in elements(stream):
                    yield Element(member, offset, data)
            except ElementError as bad:
                set_aside(Quarantined(bad.offset, bad.size_bytes, bad.reason, ""))
            except (zipfile.BadZipFile, zlib.error, EOFError):
                set_aside(Quarantined(0, 0, "broken_archive", ""))


def _member_names(path: Path) -> list[str]:
    if path.suffix != ".zip":
        return [""]
    with _members(path) as (_archive, names):
        return names


@contextmanager
def _members(path: Path) -> Iterator[tuple[zipfile.ZipFile, list[str]]]:
    with zipfile.ZipFile(path) as archive:
        names = sorted(
            name
            for name in archive.namelist()
            if name.rsplit("/", 1)[-1].startswith("conversations") and name.endswith(".json")
        )
        yield archive, names


@contextmanager
def _document(path: Path, member: str) -> Iterator[IO[bytes]]:
    if not member:
        with path.open("rb") as stream:
            yield stream
        return
    with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        yield stream
