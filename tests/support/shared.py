"""Where the steering repo's shared/ folder is, when this checkout has one beside it."""

import os
from pathlib import Path

import pytest


def shared_path(*parts: str) -> Path:
    """A path under shared/; skips the calling test (with the reason) where shared/ is not."""
    root = Path(os.environ.get("POLYC_SHARED") or Path(__file__).resolve().parents[3] / "shared")
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not on this machine (shared/ is the steering repo's)")
    return path
