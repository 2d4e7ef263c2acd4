"""What every request to Control's socket passes before anything answers it, and what every answer carries.

1. One Host header, one of ours: a rebound name reaches nothing (the loopback socket is everybody's on the machine).
2. An Origin, when there is one, is ours; a cross-site fetch that writes is refused.
3. No bearer in the address: addresses end up in logs and histories.
4. The rate of one address is bounded.
5. Answers carry a content security policy without inline scripts and are never sniffed, framed or cached by default.

Cookies are for pages alone: API operations take a bearer and look at no cookie, so they cannot be forged across sites.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control.api import answers
from polyc.clock import Clock
from polyc.errors import RefusedError
from polyc.limits import ADDRESSES_MAX, REQUESTS_BURST, REQUESTS_PER_S

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_BEARER_MARKS: Final = (b"pcs_", b"pcd_", b"eyJ")  # sessions, dispatch credentials, the first letters of every JWS


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceConfig:
    """How Control is reached: `origins` are ours (`http://127.0.0.1:8420`), `query_origin` the Query edge's.

    `is_secure`: browsers reach us over TLS (ours or a trusted proxy's), so cookies are `__Host-` and HSTS is on.
    """

    origins: tuple[str, ...]
    query_origin: str
    is_secure: bool = False

    @property
    def hosts(self) -> frozenset[str]:
        """The Host headers that are ours."""
        return frozenset(urlsplit(origin).netloc for origin in self.origins)

    @property
    def content_security_policy(self) -> str:
        """No inline script, no foreign source, no frame; pages may ask the Query edge."""
        return (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            f"connect-src 'self' {self.query_origin}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )


def loopback_face(port: int, *, query_port: int) -> FaceConfig:
    """The face of a Control that listens on this machine alone."""
    return FaceConfig(
        origins=(f"http://127.0.0.1:{port}", f"http://localhost:{port}"),
        query_origin=f"http://127.0.0.1:{query_port}",
    )


class HttpFace:
    """ASGI middleware: the checks above in their order."""

    def __init__(self, app: ASGIApp, *, config: FaceConfig, clock: Clock) -> None:
        self._app = app
        self._config = config
        self._rate = _Rate(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on with the headers of its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._complete(MutableHeaders(raw=message["headers"]))
            await send(message)

        try:
            self._check(scope)
        except RefusedError as error:
            await answers.failure(error)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        # 1
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._config.hosts:
            raise RefusedError("this Control is not reached by that name", code="permission_denied")
        # 2
        origins = headers.getlist("origin")
        if origins and (len(origins) != 1 or origins[0] not in self._config.origins):
            raise RefusedError("requests from another origin are refused", code="permission_denied")
        if scope["method"] not in SAFE_METHODS and headers.get("sec-fetch-site", "none") == "cross-site":
            raise RefusedError("requests from another site are refused", code="permission_denied")
        # 3
        address = scope.get("raw_path", b"") + b"?" + scope["query_string"]
        if any(mark in address for mark in _BEARER_MARKS):
            raise RefusedError("a bearer does not belong in an address", hint="authorization: Bearer …")
        # 4
        client = scope.get("client")
        if not self._rate.admits(client[0] if client else "local"):
            raise RefusedError("too many requests from this address", code="resource_exhausted")

    def _complete(self, headers: MutableHeaders) -> None:
        # 5
        headers.setdefault("content-security-policy", self._config.content_security_policy)
        headers.setdefault("x-content-type-options", "nosniff")
        headers.setdefault("x-frame-options", "DENY")
        headers.setdefault("referrer-policy", "same-origin")
        headers.setdefault("cross-origin-opener-policy", "same-origin")
        headers.setdefault("cross-origin-resource-policy", "same-origin")
        headers.setdefault("cache-control", "no-store")
        if self._config.is_secure:
            headers.setdefault("strict-transport-security", "max-age=31536000")


class _Rate:
    """A token bucket an address; the longest idle addresses are forgotten first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, address: str) -> bool:
        now_s = self._clock.monotonic_s()
        tokens, at_s = self._buckets.pop(address, (float(REQUESTS_BURST), now_s))
        tokens = min(float(REQUESTS_BURST), tokens + (now_s - at_s) * REQUESTS_PER_S)
        admitted = tokens >= 1.0
        self._buckets[address] = (tokens - 1.0 if admitted else tokens, now_s)
        if len(self._buckets) > ADDRESSES_MAX:
            self._buckets.popitem(last=False)
        return admitted
