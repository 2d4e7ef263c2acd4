"""`polyc mcp`: a person's assistant asks with the person's own session, over the Model Context Protocol.

The session comes from the environment (POLYCHROME_SESSION), never as an argument, and is never written anywhere.
"""

import os
from argparse import Namespace
from typing import Final

from control.assistant_mcp import Addresses, Assistant, assistant_app, assistant_mcp
from control.sessions import PREFIX
from polyc.clock import SystemClock
from polyc.errors import RefusedError

SESSION_VARIABLE: Final = "POLYCHROME_SESSION"
LOOPBACK: Final = "127.0.0.1"


def run(arguments: Namespace) -> int:
    """Serve one assistant over stdin and stdout."""
    session = os.environ.get(SESSION_VARIABLE)
    if not session:
        raise RefusedError(
            f"{SESSION_VARIABLE} is not set",
            code="unauthenticated",
            hint=f"{SESSION_VARIABLE}=$(polyc session create) polyc mcp",
        )
    if not session.startswith(PREFIX):
        raise RefusedError(
            f"{SESSION_VARIABLE} holds no session", code="unauthenticated", hint="polyc session create prints one"
        )
    assistant_mcp(_assistant(arguments), session=session).run("stdio")
    return 0


def serve(arguments: Namespace) -> int:
    """Serve many assistants over HTTP; each brings its own bearer."""
    import uvicorn

    app = assistant_app(_assistant(arguments), port=arguments.port)
    uvicorn.run(app, host=LOOPBACK, port=arguments.port, log_level="warning", access_log=False)
    return 0


def _assistant(arguments: Namespace) -> Assistant:
    control, edge = arguments.control_port, arguments.control_port + 1
    addresses = Addresses(control_url=f"http://{LOOPBACK}:{control}", query_url=f"http://{LOOPBACK}:{edge}")
    return Assistant(addresses, clock=SystemClock())
