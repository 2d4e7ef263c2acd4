"""Which files must be read: a look at names, sizes and times, which opens no file that is as it was.

Nothing heavy is imported here: a run that finds nothing new must cost next to nothing. A file's signature holds the
sizes, times and inodes of the file and of its companions, whose paths it names.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from sources.cursors import Cursors, FileCursor
from sources.discover import files
from sources.stillness import Stillness

STILL_US: Final = 5 * 60 * 1_000_000  # design: a file that has been still for five minutes has told its end


class FoundFile(msgspec.Struct, frozen=True):
    """A file that is to be read now."""

    path: str
    provider: str
    signature: str
    size_bytes: int
    level: Stillness


class Signature(msgspec.Struct, frozen=True):
    """What tells that a file changed: as text, with the file's size and when it or a companion was changed last."""

    text: str
    size_bytes: int
    changed_us: int


@dataclass(slots=True)
class Survey:
    """Which files there are and which of them have something new."""

    files: int = 0
    size_bytes: int = 0
    changed: list[FoundFile] = field(default_factory=list)
    level: Stillness = Stillness.STILL

    @property
    def changed_size_bytes(self) -> int:
        """What is to be read: the measure of a progress bar."""
        return sum(found.size_bytes for found in self.changed)


def survey(
    paths: Iterable[Path],
    cursors: Cursors,
    *,
    now_us: int,
    final: bool,
    name_unrecognised: Callable[[str], None],
    name_unreadable: Callable[[str, OSError], None],
) -> Survey:
    """Look at all files below the paths; one that cannot be read is named and looked at again the next time."""
    found_all = Survey(level=Stillness.FINAL if final else Stillness.STILL)
    for path in files(paths):
        found_all.files += 1
        cursor = cursors.file(str(path))
        if cursor is not None and _is_as_before(path, cursor, now_us=now_us, final=final):
            continue
        try:
            found = _recognised(path, cursors, now_us=now_us, final=final)
        except OSError as error:
            name_unreadable(str(path), error)
            continue
        if found is None:
            name_unrecognised(str(path))
        else:
            found_all.size_bytes += found.size_bytes
            found_all.changed.append(found)
    return found_all


def signature_of(path: Path, companions: Iterable[Path | str]) -> Signature:
    """The signature of a file as it is now."""
    parts: list[tuple[str, int, int, int]] = []
    for one in (path, *companions):
        name = "" if one is path else str(one)
        try:
            stat = Path(one).stat()
        except OSError:
            parts.append((name, -1, 0, 0))
        else:
            parts.append((name, stat.st_size, stat.st_mtime_ns, stat.st_ino))
    youngest = max(changed for _name, _size, changed, _inode in parts)
    return Signature(msgspec.json.encode(parts).decode(), max(parts[0][1], 0), youngest // 1000)


def _is_as_before(path: Path, cursor: FileCursor, *, now_us: int, final: bool) -> bool:
    now = signature_of(path, _companions_in(cursor.signature))
    return now.text == cursor.signature and _level(now, now_us=now_us, final=final) <= cursor.told


def _recognised(path: Path, cursors: Cursors, *, now_us: int, final: bool) -> FoundFile | None:
    """The file and whose it is; None (and noted as nobody's) when no provider knows it."""
    from sources.recognition import recognise  # noqa: PLC0415 the providers are loaded only for a file that changed

    provider = recognise(path)
    if provider is None:
        cursors.see(str(path), provider="")
        cursors.read(str(path), signature=signature_of(path, ()).text, told=Stillness.FINAL)
        return None
    signature = signature_of(path, provider.companions(path))
    cursors.see(str(path), provider=provider.name)
    level = Stillness.FINAL if provider.always_final else _level(signature, now_us=now_us, final=final)
    return FoundFile(str(path), provider.name, signature.text, signature.size_bytes, level)


def _level(signature: Signature, *, now_us: int, final: bool) -> Stillness:
    if final:
        return Stillness.FINAL
    return Stillness.STILL if now_us - signature.changed_us >= STILL_US else Stillness.GROWING


def _companions_in(signature: str) -> Sequence[str]:
    try:
        parts = msgspec.json.decode(signature, type=list[tuple[str, int, int, int]])
    except msgspec.DecodeError:
        return ()
    return [name for name, _size, _changed, _inode in parts[1:]]
