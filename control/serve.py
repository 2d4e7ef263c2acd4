"""Control as a server: uvicorn on one address; loopback unless it is told how it is protected elsewhere.

An address that others can reach needs TLS of ours or a trusted proxy, and the origin that browsers know it by;
anything between is refused before the socket is opened.
"""

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette

from control.app import create_app
from control.assembly import open_control
from control.http_face import FaceConfig, loopback_face
from control.ports import JournalPlane, RedactionPolicy
from polyc.clock import Clock
from polyc.dataroot import DataRoot
from polyc.errors import RefusedError
from polyc.ids import IdSource

PORT_DEFAULT: Final = 8420


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where Control listens and how it is protected there; the Query edge is on the next port (ruling 31).

    `tls_certificate` and `tls_key`: PEM files. `trusted_proxy`: the one address a proxy that ends TLS calls from.
    `public_origin`: what browsers type (`https://polychrome.example`), needed beyond loopback.
    """

    host: str = "127.0.0.1"
    port: int = PORT_DEFAULT
    query_url: str | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    trusted_proxy: str | None = None
    public_origin: str | None = None

    @property
    def edge_url(self) -> str:
        """The Query edge's base address."""
        return self.query_url or f"http://127.0.0.1:{self.port + 1}"

    def face(self) -> FaceConfig:
        """How browsers reach this Control; RefusedError when the address is open and nothing protects it."""
        has_tls = self.tls_certificate is not None and self.tls_key is not None
        if (self.tls_certificate is None) is not (self.tls_key is None):
            raise _misconfigured("TLS needs a certificate and a key")
        if self.public_origin is None:
            if not _is_loopback(self.host):
                raise _misconfigured("an address beyond loopback needs --public-origin, and TLS or a trusted proxy")
            if has_tls or self.trusted_proxy is not None:
                raise _misconfigured("TLS and trusted proxies need --public-origin")
            return loopback_face(self.port, query_port=self.port + 1)
        if not self.public_origin.startswith("https://") or self.public_origin.count("/") != 2:
            raise _misconfigured("--public-origin is https://name[:port], without a path")
        if not has_tls and self.trusted_proxy is None:
            raise _misconfigured("a public origin needs TLS (--tls-certificate, --tls-key) or --trusted-proxy")
        return FaceConfig(origins=(self.public_origin,), query_origin=self.edge_url, is_secure=True)

    def uvicorn_options(self) -> dict[str, Any]:
        """What uvicorn is told, every option that matters spelled out."""
        return {
            "host": self.host,
            "port": self.port,
            "http": "h11",
            "ws": "none",
            "access_log": False,  # a path may name a conversation
            "log_level": "warning",
            "server_header": False,
            "date_header": False,
            "proxy_headers": self.trusted_proxy is not None,
            "forwarded_allow_ips": self.trusted_proxy or "",
            "timeout_graceful_shutdown": 5,
            "timeout_keep_alive": 15,
            "limit_concurrency": 256,
            "h11_max_incomplete_event_size": 16 * 1024,
            "ssl_certfile": None if self.tls_certificate is None else str(self.tls_certificate),
            "ssl_keyfile": None if self.tls_key is None else str(self.tls_key),
        }


class ControlServer(uvicorn.Server):
    """Ends running turns first, so that their followers' answers end too, and only then the connections.

    uvicorn offers no other place before it waits for connections than its `shutdown`.
    """

    def __init__(self, app: Starlette, options: dict[str, Any]) -> None:
        super().__init__(uvicorn.Config(app, **options))
        self._runner = app.state.service.runner

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Turns, then connections, then the application."""
        await self._runner.stop()
        await super().shutdown(sockets)


def server_of(
    journal: JournalPlane,
    root: DataRoot,
    *,
    clock: Clock,
    ids: IdSource,
    redaction: RedactionPolicy,
    listen: Listen | None = None,
) -> ControlServer:
    """The server, not yet running: `.run()` serves until `.should_exit` is set or SIGTERM comes."""
    listen = listen or Listen()
    face = listen.face()
    context = open_control(journal, root, clock=clock, ids=ids, redaction=redaction, query_url=listen.edge_url)
    return ControlServer(create_app(context, face), listen.uvicorn_options())


def serve(
    journal: JournalPlane,
    root: DataRoot,
    *,
    clock: Clock,
    ids: IdSource,
    redaction: RedactionPolicy,
    listen: Listen | None = None,
) -> None:
    """Serve until told to stop."""
    server_of(journal, root, clock=clock, ids=ids, redaction=redaction, listen=listen).run()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _misconfigured(message: str) -> RefusedError:
    return RefusedError(message, code="failed_precondition")
