"""The JSON Schema of the native NDJSON (`docs/native-events.schema.json`), made from the event structs themselves.

`python tools/native_schema.py` writes it; a test demands that the committed file is what would be written.
"""

from typing import Any, Final

import msgspec

from sources.native import ALLOWED

ADDRESS: Final = "https://polychrome.invalid/schema/native-events/1"


def schema() -> dict[str, Any]:
    """One line of a native file: an event that an importer may author."""
    members, definitions = msgspec.json.schema_components(
        sorted(ALLOWED.values(), key=lambda member: member.__name__), ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ADDRESS,
        "title": "A line of Polychrome's native history",
        "description": "The first line of a conversation is a conversation_opened; unknown fields are ignored.",
        "oneOf": list(members),
        "$defs": dict(sorted(definitions.items())),
    }


def text() -> str:
    """The schema as it is committed."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=1).decode() + "\n"
