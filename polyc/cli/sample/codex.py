"""A story in the form of Codex: envelopes of a timestamp, a type and a payload; visible messages appear twice."""

from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from polyc.cli.sample.stories import Call, Story, Turn
from polyc.cli.sample.timeline import Timeline

HOME: Final = "/home/dev"


def render(story: Story) -> tuple[bytes, PurePosixPath]:
    """The rollout's bytes and its path below the home folder."""
    rollout = _Rollout(story)
    for turn in story.turns:
        rollout.turn(turn)
    day, moment = story.started_at[:10].replace("-", "/"), story.started_at[:19].replace(":", "-")
    path = PurePosixPath(".codex/sessions") / day / f"rollout-{moment}-{rollout.session_id}.jsonl"
    return b"".join(msgspec.json.encode(line) + b"\n" for line in rollout.lines), path


class _Rollout:
    """The growing file of one thread."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.time = Timeline(name=story.name, started_at=story.started_at)
        self.session_id = self.time.uuid()
        self.lines: list[dict[str, Any]] = []
        self._totals = {
            "input_tokens": 0,
            "cached_input_tokens": 0,
            "output_tokens": 0,
            "reasoning_output_tokens": 0,
            "total_tokens": 0,
        }
        cwd = f"{HOME}/{story.project}"
        self._line(
            "session_meta",
            {
                "id": self.session_id,
                "timestamp": story.started_at,
                "cwd": cwd,
                "originator": "codex_cli_rs",
                "cli_version": "0.144.1",
                "source": "cli",
                "model_provider": "openai",
                "git": {"commit_hash": self.time.digest(20).hex(), "branch": story.branch},
            },
        )
        self._say("user", f"<environment_context>\n  <cwd>{cwd}</cwd>\n</environment_context>", visible=False)

    def turn(self, turn: Turn) -> None:
        """Task started, prompt, calls with their token counts, and the stated end."""
        turn_id = self.time.uuid()
        self.time.stamp(90)
        self._event("task_started", turn_id=turn_id, model_context_window=258_400)
        self._line(
            "turn_context",
            {
                "turn_id": turn_id,
                "cwd": f"{HOME}/{self.story.project}",
                "approval_policy": "never",
                "model": self.story.model,
            },
        )
        self._say("user", turn.prompt)
        if turn.thought:
            self._event("agent_reasoning", text=turn.thought)
        for call in turn.calls:
            self._call(call)
            self._count()
        if turn.end == "completed":
            self._say("assistant", turn.answer)
            self._count()
            self._event("task_complete", turn_id=turn_id, last_agent_message=turn.answer)
        elif turn.end == "cancelled":
            self._event("turn_aborted", turn_id=turn_id, reason="interrupted")

    def _call(self, call: Call) -> None:
        call_id = "call_" + self.time.digest().hex()[:24]
        exit_code = int(call.failed)
        if call.tool == "edit":
            patch = f"*** Begin Patch\n*** Update File: {call.target}\n@@\n-before\n+after\n*** End Patch"
            self._item("custom_tool_call", status="completed", call_id=call_id, name="apply_patch", input=patch)
            output = msgspec.json.encode({"output": call.output, "metadata": {"exit_code": exit_code}}).decode()
            self._item("custom_tool_call_output", call_id=call_id, output=output)
            return
        arguments = msgspec.json.encode({"cmd": call.target, "workdir": f"{HOME}/{self.story.project}"}).decode()
        self._item("function_call", name="exec_command", arguments=arguments, call_id=call_id)
        output = f"Wall time: 0.4 seconds\nProcess exited with code {exit_code}\nOutput:\n{call.output}"
        self._item("function_call_output", call_id=call_id, output=output)

    def _say(self, role: str, text: str, *, visible: bool = True) -> None:
        kind = "input_text" if role == "user" else "output_text"
        self._item("message", role=role, content=[{"type": kind, "text": text}])
        if visible:
            self._event("user_message" if role == "user" else "agent_message", message=text)

    def _count(self) -> None:
        spent = {"input_tokens": self.time.number(4_000, 16_000), "output_tokens": self.time.number(60, 500)}
        spent["cached_input_tokens"] = spent["input_tokens"] * 3 // 4
        spent["reasoning_output_tokens"] = spent["output_tokens"] // 4
        spent["total_tokens"] = spent["input_tokens"] + spent["output_tokens"]
        self._totals = {name: total + spent[name] for name, total in self._totals.items()}
        self._event("token_count", info={"total_token_usage": self._totals, "last_token_usage": spent})

    def _event(self, kind: str, **fields: Any) -> None:
        self._line("event_msg", {"type": kind, **fields})

    def _item(self, kind: str, **fields: Any) -> None:
        self._line("response_item", {"type": kind, **fields})

    def _line(self, kind: str, payload: dict[str, Any]) -> None:
        self.lines.append({"timestamp": self.time.stamp(), "type": kind, "payload": payload})
