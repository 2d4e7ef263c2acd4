"""A story in the form of Claude Code: one JSON line a record, chained by `parentUuid`, one block an assistant line."""

from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from polyc.cli.sample.stories import Call, Story, Turn
from polyc.cli.sample.timeline import Timeline

HOME: Final = "/home/dev"
TOOLS: Final = {
    "shell": ("Bash", "command"),
    "read": ("Read", "file_path"),
    "edit": ("Edit", "file_path"),
    "search": ("Grep", "pattern"),
}


def render(story: Story) -> tuple[bytes, PurePosixPath]:
    """The file's bytes and its path below the home folder."""
    transcript = _Transcript(story)
    for turn in story.turns:
        transcript.turn(turn)
    if story.turns[-1].end != "crashed":
        transcript.lines.append({"type": "ai-title", "aiTitle": story.title, "sessionId": transcript.session_id})
    folder = f"{HOME}/{story.project}".replace("/", "-")
    path = PurePosixPath(".claude/projects") / folder / f"{transcript.session_id}.jsonl"
    return b"".join(msgspec.json.encode(line) + b"\n" for line in transcript.lines), path


class _Transcript:
    """The growing file of one session."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.time = Timeline(name=story.name, started_at=story.started_at)
        self.session_id = self.time.uuid()
        self.lines: list[dict[str, Any]] = []
        self._parent: str | None = None
        self._context_tokens = 11_000

    def turn(self, turn: Turn) -> None:
        """A prompt, its calls and its end."""
        self.time.stamp(90)
        self._record("user", {"message": {"role": "user", "content": turn.prompt}})
        for position, call in enumerate(turn.calls):
            self._call(call, thought=turn.thought if position == 0 else "")
        if turn.end == "completed":
            self._say([{"type": "text", "text": turn.answer}], stop_reason="end_turn")
        elif turn.end == "cancelled":
            self._record(
                "user",
                {"message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]}},
            )

    def _call(self, call: Call, *, thought: str) -> None:
        name, argument = TOOLS[call.tool]
        call_id = "toolu_" + self.time.digest().hex()[:22]
        blocks: list[dict[str, Any]] = (
            [{"type": "thinking", "thinking": thought, "signature": "sample"}] if thought else []
        )
        blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": {argument: call.target}})
        self._say(blocks, stop_reason="tool_use")
        if call.output is not None:
            result = {"tool_use_id": call_id, "type": "tool_result", "content": call.output, "is_error": call.failed}
            self._record(
                "user",
                {
                    "message": {"role": "user", "content": [result]},
                    "toolUseResult": {"stdout": call.output, "stderr": "", "interrupted": False},
                },
            )

    def _say(self, blocks: list[dict[str, Any]], *, stop_reason: str) -> None:
        """One model call: a line a block, all with the same message id and the same, repeated usage."""
        self._context_tokens += self.time.number(300, 1_500)
        message_id, request_id = "msg_" + self.time.digest().hex()[:22], "req_" + self.time.digest().hex()[:22]
        usage = {
            "input_tokens": self.time.number(3, 12),
            "cache_creation_input_tokens": self.time.number(200, 900),
            "cache_read_input_tokens": self._context_tokens,
            "output_tokens": self.time.number(40, 420),
        }
        for position, block in enumerate(blocks):
            message = {
                "model": self.story.model,
                "id": message_id,
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": stop_reason if position == len(blocks) - 1 else None,
                "usage": usage,
            }
            self._record("assistant", {"message": message, "requestId": request_id})

    def _record(self, kind: str, fields: dict[str, Any]) -> None:
        uuid = self.time.uuid()
        self.lines.append(
            {
                "parentUuid": self._parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": f"{HOME}/{self.story.project}",
                "sessionId": self.session_id,
                "version": "2.1.20",
                "gitBranch": self.story.branch,
                "type": kind,
                **fields,
                "uuid": uuid,
                "timestamp": self.time.stamp(),
            }
        )
        self._parent = uuid
