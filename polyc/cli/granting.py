"""`polyc grant`: a token for the Query edge, minted by Control's rules in the embedded default.

The token alone goes to stdout; how long it lives goes to stderr.
"""

from argparse import Namespace

from polyc.cli.console import note
from polyc.cli.deployment import Deployment, opened, root_of


def run(arguments: Namespace) -> int:
    """Print a token."""
    with opened(root_of(arguments)) as deployment:
        token, expires_at_ms = mint(deployment, admin=arguments.admin, persona=arguments.persona)
        seconds = max(expires_at_ms - deployment.clock.now_us() // 1000, 0) // 1000
    print(token)
    note(f"valid for {seconds} s")
    return 0


def mint(deployment: Deployment, *, admin: bool, persona: str | None) -> tuple[str, int]:
    """A fleet grant for an admin, else a participant grant for the persona (the operating-system user by default)."""
    return deployment.control().mint_grant(persona=persona, admin=admin)
