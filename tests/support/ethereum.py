"""eth-account for tests: imported as the product does, so that every other test keeps its recursion limit."""

from typing import Any

import pytest

from facts import eip712


def eth_account() -> tuple[Any, Any]:
    """Its accounts and messages; skips where the extra is missing, which the development lock installs."""
    if not eip712.available():
        pytest.skip("the extra eip712 is not installed")
    return eip712.library()
