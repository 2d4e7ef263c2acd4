"""`polyc init`: make a deployment before anything is imported, and choose what cannot be changed later."""

from argparse import Namespace

from journal import boot
from polyc.cli.console import note
from polyc.cli.deployment import root_of
from polyc.clock import SystemClock
from polyc.errors import RefusedError
from polyc.ids import SystemIds


def run(arguments: Namespace) -> int:
    """Make keys, journal and policy file."""
    root = root_of(arguments)
    if root.exists:
        raise RefusedError(f"there is a deployment in {root.path}", code="already_exists")
    policy = boot.create_deployment(root, clock=SystemClock(), ids=SystemIds(), encryption=arguments.encryption)
    note(f"{policy.origin} in {root.path}, payload encryption: {policy.encryption}")
    note(f"polyc: hint: keep a copy of {root.policy_file} elsewhere: it is what others verify against")
    return 0
