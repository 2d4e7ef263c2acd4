"""Small histories written by the tests themselves: Claude Code and Codex lines, one record a call."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

BEGIN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def stamp(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class ClaudeFile:
    """Builds a transcript; each record hangs on the one before unless told otherwise."""

    def __init__(self, session: str, *, agent: str | None = None, prefix: str = "u") -> None:
        self.session = session
        self.agent = agent
        self.prefix = prefix
        self.lines: list[dict] = []
        self.last: str | None = None
        self._count = itertools.count()
        self.seconds = 0.0

    def _record(self, kind: str, **fields) -> str:
        number = next(self._count)
        self.seconds += 1
        uuid = fields.pop("uuid", f"{self.prefix}{self.session}-{number}")
        record = {
            "parentUuid": fields.pop("parent", self.last),
            "isSidechain": self.agent is not None,
            "cwd": "/work/tram",
            "sessionId": self.session,
            "gitBranch": "main",
            "type": kind,
            "uuid": uuid,
            "timestamp": fields.pop("timestamp", stamp(self.seconds)),
            **({"agentId": self.agent} if self.agent else {}),
            **fields,
        }
        self.lines.append(record)
        self.last = uuid
        return uuid

    def say(self, content, **fields) -> str:
        return self._record("user", message={"role": "user", "content": content}, **fields)

    def answer(self, message_id: str, *blocks, stop: str | None = "end_turn", tokens=(10, 5, 0, 0), **fields) -> str:
        usage = dict(
            zip(
                ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
                tokens,
                strict=True,
            )
        )
        content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        message = {
            "id": message_id,
            "role": "assistant",
            "model": fields.pop("model", "claude-sonnet-4-5"),
            "content": content,
            "stop_reason": stop,
            "usage": usage,
        }
        return self._record("assistant", message=message, requestId=f"req-{message_id}", **fields)

    def result(self, tool_use_id: str, content="ok", **fields) -> str:
        block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
        if "is_error" in fields:
            block["is_error"] = fields.pop("is_error")
        return self._record("user", message={"role": "user", "content": [block]}, **fields)

    def system(self, subtype: str, **fields) -> str:
        return self._record("system", subtype=subtype, **fields)

    def raw(self, **record) -> None:
        self.lines.append(record)

    def bytes(self) -> bytes:
        return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in self.lines)

    def write(self, folder: Path, name: str | None = None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (name or f"{self.session}.jsonl")
        path.write_bytes(self.bytes())
        return path


def tool(ident: str, name: str = "Bash", **arguments) -> dict:
    return {"type": "tool_use", "id": ident, "name": name, "input": arguments}


class CodexFile:
    """Builds a rollout."""

    def __init__(self, session: str, **meta) -> None:
        self.session = session
        self.lines: list[dict] = []
        self.seconds = 0.0
        self.totals = [0, 0, 0, 0]
        self.line(
            "session_meta",
            {
                "id": session,
                "timestamp": stamp(0),
                "cwd": "/work/tram",
                "originator": "codex_cli_rs",
                "cli_version": "1",
                "source": "cli",
                **meta,
            },
        )

    def line(self, kind: str, payload: dict) -> None:
        self.seconds += 1
        self.lines.append({"timestamp": stamp(self.seconds), "type": kind, "payload": payload})

    def event(self, kind: str, **fields) -> None:
        self.line("event_msg", {"type": kind, **fields})

    def item(self, kind: str, **fields) -> None:
        self.line("response_item", {"type": kind, **fields})

    def start(self, turn: str) -> None:
        self.event("task_started", turn_id=turn)
        self.line("turn_context", {"turn_id": turn, "cwd": "/work/tram", "model": "gpt-5.3-codex"})

    def say(self, text: str) -> None:
        self.item("message", role="user", content=[{"type": "input_text", "text": text}])
        self.event("user_message", message=text, images=[])

    def answer(self, text: str) -> None:
        self.event("agent_message", message=text)
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}])

    def tokens(self, *used: int) -> None:
        names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
        self.totals = [a + b for a, b in zip(self.totals, used, strict=True)]
        self.event(
            "token_count",
            info={
                "total_token_usage": dict(zip(names, self.totals, strict=True)),
                "last_token_usage": dict(zip(names, used, strict=True)),
            },
        )

    def bytes(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def write(self, folder: Path, name: str | None = None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (name or f"rollout-2026-03-01T12-00-00-{self.session}.jsonl")
        path.write_bytes(self.bytes())
        return path
