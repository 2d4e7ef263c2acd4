"""The edge as tests call it: literally, and through the client; grants are minted as Control mints them."""

import json
import time

import httpx

from query_plane.client import Client
from tests.query_plane.deployment import Deployment

EXECUTE = "/polychrome.query.v1.QueryService/Execute"
DESCRIBE = "/polychrome.query.v1.QueryService/DescribeCatalog"
FORM = "application/x-www-form-urlencoded"


class Edge:
    """A serving edge."""

    def __init__(self, url: str, deployment: Deployment) -> None:
        self.url = url
        self.deployment = deployment
        self._tokens: dict[tuple[str, bool], tuple[float, str]] = {}
        self._clients: dict[tuple[str, bool], Client] = {}

    def token(self, persona: str = "ada", *, admin: bool = False) -> str:
        """A grant minted within the last seconds, with a fresh list of revocations."""
        key = (persona, admin)
        kept = self._tokens.get(key)
        if kept is None or time.monotonic() - kept[0] > 4:
            name = "root-admin" if admin else persona
            kept = (time.monotonic(), self.deployment.grant(name, admin=admin))
            self._tokens[key] = kept
        return kept[1]

    def client(self, persona: str = "ada", *, admin: bool = False) -> Client:
        """One client a person; closed with the edge."""
        key = (persona, admin)
        if key not in self._clients:
            self._clients[key] = Client(self.url, lambda: self.token(persona, admin=admin))
        return self._clients[key]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def post(self, body, *, token=None, headers=None, path=EXECUTE, content_type=FORM) -> httpx.Response:
        """The reference's call; `body` a value or bytes."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        pairs = {"authorization": f"Bearer {token or self.token()}", "content-type": content_type}
        return httpx.post(self.url + path, content=content, headers=pairs | (headers or {}), timeout=60)

    def sql(self, sql: str, **options) -> httpx.Response:
        return self.post({"sql": sql}, **options)


def frames(response: httpx.Response) -> list[dict]:
    """The NDJSON lines, read strictly: NaN and Infinity are not JSON."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in response.content.split(b"\n") if line]


def rows(response: httpx.Response) -> list[list]:
    return [row for frame in frames(response) if "batch" in frame for row in frame["batch"]["rows"]]
