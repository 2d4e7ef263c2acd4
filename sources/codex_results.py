"""A tool's output in Codex: its text, exit code and duration, which stand in the text itself."""

import re
from typing import Any, Final, NamedTuple

from facts.events import Block
from sources import fields
from sources.content import as_json, data_url_block, plain_text
from sources.foreign_json import value_in

_HEADER_CHARS: Final = 600  # the header precedes the output
_EXIT: Final = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})\s*$", re.MULTILINE)
_WALL: Final = re.compile(r"^Wall time: (\d{1,9}(?:\.\d{1,9})?) seconds", re.MULTILINE)


class Output(NamedTuple):
    """What a call gave back."""

    text: str
    exit_code: int | None
    duration_ms: int | None
    is_error: bool | None
    parts: tuple[Block, ...] = ()


def read_output(output: Any) -> Output:
    r"""Any of the forms an output has had.

    >>> read_output('{"output":"1435 mm\\n","metadata":{"exit_code":0,"duration_seconds":0.1}}')
    Output(text='1435 mm\n', exit_code=0, duration_ms=100, is_error=False, parts=())
    >>> read_output("Wall time: 0.5 seconds\nProcess exited with code 2\nOutput:\nno").exit_code
    2
    """
    if isinstance(output, dict):
        success = output.get("success")
        inner = read_output(output.get("content", output.get("output")))
        if isinstance(success, bool) and inner.is_error is None:
            return inner._replace(is_error=not success)
        return inner
    if isinstance(output, list):
        pictures = tuple(
            data_url_block("image", part["image_url"])
            for part in output
            if isinstance(part, dict) and isinstance(part.get("image_url"), str)
        )
        texts = [part for part in output if not (isinstance(part, dict) and "image_url" in part)]
        return _of_text(plain_text(texts))._replace(parts=pictures)
    return _of_text(output if isinstance(output, str) else "" if output is None else as_json(output))


def _of_text(text: str) -> Output:
    if text.startswith('{"output"'):
        wrapped = _unwrap(text)
        if wrapped is not None:
            return wrapped
    head = text[:_HEADER_CHARS]
    exited, lasted = _EXIT.search(head), _WALL.search(head)
    code = int(exited[1]) if exited else None
    return Output(
        text, code, fields.milliseconds(float(lasted[1])) if lasted else None, None if code is None else code != 0
    )


def _unwrap(text: str) -> Output | None:
    value = value_in(text)
    inner = value.get("output") if isinstance(value, dict) else None
    if not isinstance(inner, str):
        return None
    meta = fields.mapping(value.get("metadata"))
    code = fields.whole(meta.get("exit_code"))
    lasted_ms = fields.milliseconds(meta.get("duration_seconds"))
    return Output(inner, code, lasted_ms, None if code is None else code != 0)
