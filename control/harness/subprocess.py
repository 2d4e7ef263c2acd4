"""A program as a harness: the request is one line on its stdin, its stdout is NDJSON, its stderr is not recorded.

The environment is made from an allow-list: no session, key or grant of ours reaches it (ruling 35). An agent under
the same user id is not contained by that; SECURITY.md says so. When the turn is over the program is asked to stop,
then killed with everything it started.
"""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Final

from control.harness.config import SubprocessConfig
from control.harness.lines import lines_of
from control.harness.wire import TurnRequest
from polyc.errors import RefusedError, UnavailableError
from polyc.limits import HARNESS_STOP_S

_INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
_CHUNK_SIZE_BYTES: Final = 64 * 1024


async def run_subprocess(config: SubprocessConfig, request: TurnRequest) -> AsyncGenerator[bytes]:
    """The program's lines; RefusedError when it ends with a status other than 0."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *config.command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd=config.folder,
            env={**environment, **config.environment},
            start_new_session=True,
        )
    except OSError:
        raise UnavailableError("the harness's program cannot be started") from None
    try:
        await _tell(process, request)
        assert process.stdout is not None
        async for line in lines_of(_chunks(process.stdout)):
            yield line
        if await process.wait() != 0:
            raise RefusedError("the harness's program failed", code="aborted")
    finally:
        await _stop(process)


async def _tell(process: Process, request: TurnRequest) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # a program may read nothing; its output decides
        process.stdin.write(request.encode() + b"\n")
        await process.stdin.drain()
    process.stdin.close()


async def _chunks(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while chunk := await stream.read(_CHUNK_SIZE_BYTES):
        yield chunk


async def _stop(process: Process) -> None:
    """Ask the program's group to stop, then kill it; also when the program itself is gone but left children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), HARNESS_STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
