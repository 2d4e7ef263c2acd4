"""One writer: the lock file that the operating system releases when its holder dies, however it dies (ruling 5)."""

import fcntl
import os
from pathlib import Path

from polyc.errors import UnavailableError


class WriterLock:
    """An exclusive lock beside the journal; the file names the holder's process and socket."""

    def __init__(self, path: Path, *, socket: str = "", whose: str = "writes this journal") -> None:
        """Take the lock, or raise UnavailableError that names who holds it."""
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 1024, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise UnavailableError(
                f"another process {whose}: {holder or 'unknown'}",
                hint="use its socket, or stop it first",
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"pid {os.getpid()} socket {socket or 'none'}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock up; the file stays (removing it would let two holders lock two files)."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
