"""An event over the journal's bound is cut, not lost: its longest texts keep their beginning, and say so.

The bound (4 MiB) is reached only by events of several texts, each below its own bound. Cut texts end with
`[cut: N bytes]`, N being the size of the whole.
"""

from typing import Any, Final

import msgspec

from polyc.limits import PAYLOAD_SIZE_BYTES_MAX

_STEPS_BYTES: Final = (256 * 1024, 32 * 1024, 1024)
_ITEMS_MAX: Final = 2000  # with texts of 1 KiB an event of that many blocks is still below the bound


def shrink(payload: bytes) -> bytes:
    """The payload with its texts cut until it fits."""
    value = msgspec.json.decode(payload)
    for size in _STEPS_BYTES:
        payload = msgspec.json.encode(_cut(value, size))
        if len(payload) <= PAYLOAD_SIZE_BYTES_MAX:
            return payload
    for name in ("blocks", "parts", "message_ids"):
        if isinstance(value.get(name), list):
            value[name] = value[name][:_ITEMS_MAX]
    payload = msgspec.json.encode(_cut(value, _STEPS_BYTES[-1]))
    assert len(payload) <= PAYLOAD_SIZE_BYTES_MAX, "2000 blocks of 1 KiB fit"
    return payload


def _cut(value: Any, size_bytes_max: int) -> Any:
    if isinstance(value, str):
        data = value.encode()
        if len(data) <= size_bytes_max:
            return value
        return f"{data[:size_bytes_max].decode('utf-8', 'ignore')}[cut: {len(data)} bytes]"
    if isinstance(value, dict):
        return {key: _cut(item, size_bytes_max) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, size_bytes_max) for item in value]
    return value
