"""A Control that serves on a real socket, in a thread of the test."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx

from control.app import create_app
from control.context import ControlContext
from control.http_face import loopback_face
from control.ports import RedactionPolicy
from control.serve import ControlServer, Listen
from sources.redaction import REDACTION, Redactor

POLICY = RedactionPolicy(
    policy=REDACTION.policy, version=REDACTION.version, clean=lambda payloads: Redactor().clean(payloads)
)


_OPEN: list[httpx.Client] = []


class Client:
    """A person (or a program) at Control's socket; closed with the server."""

    def __init__(self, url: str, bearer: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, headers={"authorization": f"Bearer {bearer}"}, timeout=30)
        _OPEN.append(self.http)

    def get(self, path: str, **options) -> httpx.Response:
        return self.http.get(path, **options)

    def post(self, path: str, **body) -> httpx.Response:
        return self.http.post(path, json=body) if body else self.http.post(path)

    def delete(self, path: str) -> httpx.Response:
        return self.http.delete(path)

    def turn(self, conversation: str, harness: str, prompt: str = "hello", **body) -> list[dict]:
        response = self.post(f"/api/conversations/{conversation}/turns", harness=harness, prompt=prompt, **body)
        if response.status_code != 200:
            return [{"type": "refused", "status_code": response.status_code, **response.json()}]
        return [json.loads(line) for line in response.text.splitlines()]

    def open(self, **body) -> str:
        response = self.http.post("/api/conversations", json=body)
        assert response.status_code == 200, response.text
        return response.json()["conversation"]


def close_clients(url: str = "") -> None:
    """Close the clients of an address, or all."""
    for client in [client for client in _OPEN if str(client.base_url).startswith(url)]:
        _OPEN.remove(client)
        client.close()


@contextmanager
def serving(context: ControlContext, *, statements=None) -> Iterator[str]:
    """The base address of a Control over this context."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        context = replace(context, redaction=POLICY, statements=statements)
        app = create_app(context, loopback_face(port, query_port=port + 1))
        options = {**Listen(port=port).uvicorn_options(), "timeout_graceful_shutdown": 10}
        server = ControlServer(app, options)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_until_up(url, thread)
            yield url
        finally:
            server.should_exit = True
            thread.join(timeout=20)
            close_clients(url)
            assert not thread.is_alive(), "the server stops when told to"


def _wait_until_up(url: str, thread: threading.Thread) -> None:
    transport = httpx.HTTPTransport(retries=10)
    with httpx.Client(transport=transport, base_url=url, timeout=10) as client:
        while thread.is_alive():
            try:
                if client.get("/api/health").status_code == 200:
                    return
            except httpx.HTTPError:
                continue
    raise AssertionError("the server did not come up")
