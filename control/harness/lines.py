"""Cutting a stream of bytes into lines, bounded: a harness cannot make Control hold more than one long line."""

from collections.abc import AsyncGenerator, AsyncIterable

from polyc.errors import RefusedError
from polyc.limits import HARNESS_LINE_SIZE_BYTES_MAX


async def lines_of(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """The lines without their ends; blank ones are passed over; a last line without its end counts too."""
    held = bytearray()
    async for chunk in chunks:
        held += chunk
        *whole, rest = held.split(b"\n")
        for line in whole:
            if line.strip():
                yield bytes(line)
        held = bytearray(rest)
        if len(held) > HARNESS_LINE_SIZE_BYTES_MAX:
            raise RefusedError("a line of the harness is too long", code="resource_exhausted")
    if held.strip():
        yield bytes(held)
