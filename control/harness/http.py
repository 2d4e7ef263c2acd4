"""A service as a harness: the request is the body of a POST, the answer is NDJSON that is read as it comes."""

from collections.abc import AsyncGenerator

import httpx

from control.harness.config import HttpConfig
from control.harness.lines import lines_of
from control.harness.wire import TurnRequest
from polyc.errors import RefusedError, UnavailableError

CONNECT_S = 10.0


async def run_http(config: HttpConfig, request: TurnRequest) -> AsyncGenerator[bytes]:
    """The service's lines; the turn's own deadline bounds the silence between them."""
    timeout = httpx.Timeout(config.deadline_s, connect=CONNECT_S)
    headers = {"content-type": "application/json", "accept": "application/x-ndjson"}
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False) as client,
            client.stream("POST", config.url, content=request.encode(), headers=headers) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise RefusedError(f"the harness answered {response.status_code}", code="aborted")
            async for line in lines_of(response.aiter_bytes()):
                yield line
    except httpx.HTTPError:
        raise UnavailableError("the harness's service broke off") from None
