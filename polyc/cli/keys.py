"""`polyc keys …`: which key holds which role from when to when, and how one follows another.

Every change is an event of `sys-keys`, signed by the root key. Indexes are of the global log: a signature is judged by
where it stands, never by now.
"""

from argparse import Namespace

from journal import boot
from journal.keys import add_key, list_keys, revoke_key, rotate_key
from polyc.cli.console import note
from polyc.cli.deployment import opened, root_of
from polyc.cli.output import chosen_format, write_rows
from polyc.cli.pins import read_only
from polyc.cli.proving import bytes_of_hex
from polyc.errors import RefusedError
from polyc.signing import PUBLIC_KEY_SIZE_BYTES, key_id_of


def listed(arguments: Namespace) -> int:
    """List every key the log ever named."""
    with read_only(root_of(arguments)) as reader:
        keys = list_keys(reader)
    columns = ("key_id", "role", "name", "from_index", "to_index", "state")
    rows = [(key.key_id, key.role, key.name, key.from_index, key.to_index, key.state) for key in keys]
    write_rows(columns, rows, form=chosen_format(arguments.format))
    return 0


def add(arguments: Namespace) -> int:
    """Give a key that was made elsewhere a role, from the log's present end or the index given on."""
    public_key = bytes_of_hex(arguments.public_key, what="a public key")
    if len(public_key) != PUBLIC_KEY_SIZE_BYTES:
        raise RefusedError("a public key has 64 hex digits")
    with opened(root_of(arguments)) as deployment:
        from_index = deployment.journal.size() if arguments.from_index is None else arguments.from_index
        add_key(
            deployment.author("root"),
            public_key=public_key,
            role=arguments.role,
            from_index=from_index,
            to_index=arguments.to_index,
            name=arguments.name,
        )
        boot.publish_keys(deployment.root, deployment.journal)
    note(f"{arguments.role}: {key_id_of(public_key).hex()} acts from index {from_index:,}")
    return 0


def rotate(arguments: Namespace) -> int:
    """Put a new key in a role's place; both act for a while, so that nobody is caught in between."""
    with opened(root_of(arguments)) as deployment:
        rotation = rotate_key(
            deployment.root,
            deployment.author("root"),
            deployment.journal,
            role=arguments.role,
            clock=deployment.clock,
            ids=deployment.ids,
            overlap=arguments.overlap,
        )
        boot.publish_keys(deployment.root, deployment.journal)
    note(f"{rotation.role}: {rotation.new_key_id} acts from index {rotation.new_from:,}")
    note(f"{rotation.role}: {rotation.old_key_id} ends at index {rotation.old_ends_at:,}")
    return 0


def revoke(arguments: Namespace) -> int:
    """End a key at the log's present end, or at the index given: what it signed from there on counts for nothing."""
    key_id = bytes_of_hex(arguments.key_id, what="a key id")
    with opened(root_of(arguments)) as deployment:
        from_index = deployment.journal.size() if arguments.from_index is None else arguments.from_index
        revoke_key(deployment.author("root"), key_id=key_id, from_index=from_index, reason=arguments.reason)
        boot.publish_keys(deployment.root, deployment.journal)
    note(f"{arguments.key_id} acts no more from index {from_index:,} on")
    note("polyc: hint: polyc project folds what that changes; polyc keys rotate gives who signed with it another key")
    return 0
