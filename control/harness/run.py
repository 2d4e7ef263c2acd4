"""Chooses how a harness is run by what it is."""

from collections.abc import AsyncGenerator
from typing import assert_never

from control.harness.chat import run_chat
from control.harness.config import ChatConfig, HttpConfig, SubprocessConfig
from control.harness.http import run_http
from control.harness.subprocess import run_subprocess
from control.harness.wire import TurnRequest


def run_harness(config: SubprocessConfig | HttpConfig | ChatConfig, request: TurnRequest) -> AsyncGenerator[bytes]:
    """The harness's lines as they come; closing the generator stops the harness."""
    match config:
        case SubprocessConfig():
            return run_subprocess(config, request)
        case HttpConfig():
            return run_http(config, request)
        case ChatConfig():
            return run_chat(config, request)
        case _:
            assert_never(config)
