"""Deployments and payloads that the benches share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from polyc.cli.deployment import Deployment, opened
from polyc.dataroot import DataRoot
from tests.support.conversations import WORDS


@contextmanager
def embedded(path: Path) -> Iterator[Deployment]:
    """A fresh deployment in the folder."""
    with opened(DataRoot(path), create=True) as deployment:
        yield deployment


def payloads(count: int) -> list[bytes]:
    """Message events of about 1 KB, all different."""
    return [
        msgspec.json.encode(
            {
                "type": "message",
                "id": f"00000000-0000-8000-8000-{number:012d}",
                "message_id": f"m{number}",
                "turn_id": f"t{number // 16}",
                "role": "assistant",
                "material_origin": "assistant_authored",
                "blocks": [
                    {"type": "text", "text": " ".join(WORDS[(number * 7 + i) % len(WORDS)] for i in range(130))}
                ],
            }
        )
        for number in range(count)
    ]
