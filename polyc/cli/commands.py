"""Every command's run function. Each imports its module when it runs and not before.

That is the reason for the imports inside functions: `polyc --help` and a refused argument load no engine.
"""

from argparse import Namespace


def version() -> str:
    """The installed version."""
    from importlib.metadata import version as installed

    return installed("polychrome")


def import_histories(arguments: Namespace) -> int:
    """`polyc import`."""
    from polyc.cli import importing

    return importing.run(arguments)


def project(arguments: Namespace) -> int:
    """`polyc project`."""
    from polyc.cli import projecting

    return projecting.run(arguments)


def status(arguments: Namespace) -> int:
    """`polyc status`."""
    from polyc.cli import standing

    return standing.run(arguments)


def query(arguments: Namespace) -> int:
    """`polyc query`."""
    from polyc.cli import querying

    return querying.run(arguments)


def search(arguments: Namespace) -> int:
    """`polyc search`."""
    from polyc.cli import searching

    return searching.run(arguments)


def show(arguments: Namespace) -> int:
    """`polyc show`."""
    from polyc.cli import searching

    return searching.show(arguments)


def semantic_enable(arguments: Namespace) -> int:
    """`polyc semantic enable`."""
    from polyc.cli import semantic

    return semantic.enable(arguments)


def semantic_disable(arguments: Namespace) -> int:
    """`polyc semantic disable`."""
    from polyc.cli import semantic

    return semantic.disable(arguments)


def semantic_sync(arguments: Namespace) -> int:
    """`polyc semantic sync`."""
    from polyc.cli import semantic

    return semantic.sync(arguments)


def semantic_rebuild(arguments: Namespace) -> int:
    """`polyc semantic rebuild`."""
    from polyc.cli import semantic

    return semantic.rebuild(arguments)


def semantic_status(arguments: Namespace) -> int:
    """`polyc semantic status`."""
    from polyc.cli import semantic

    return semantic.status(arguments)


def grant(arguments: Namespace) -> int:
    """`polyc grant`."""
    from polyc.cli import granting

    return granting.run(arguments)


def tables(arguments: Namespace) -> int:
    """`polyc tables`."""
    from polyc.cli import tables as listing

    return listing.run(arguments)


def verify(arguments: Namespace) -> int:
    """`polyc verify`."""
    from polyc.cli import verifying

    return verifying.run(arguments)


def demo(arguments: Namespace) -> int:
    """`polyc demo`."""
    from polyc.cli import demo as demonstration

    return demonstration.run(arguments)


def up(arguments: Namespace) -> int:
    """`polyc up`."""
    from polyc.cli import supervising

    return supervising.run(arguments)


def serve_journal(arguments: Namespace) -> int:
    """`polyc serve journal`."""
    from polyc.cli import serving

    return serving.journal(arguments)


def serve_projector(arguments: Namespace) -> int:
    """`polyc serve projector`."""
    from polyc.cli import serving

    return serving.projector(arguments)


def serve_control(arguments: Namespace) -> int:
    """`polyc serve control`."""
    from polyc.cli import serving

    return serving.control(arguments)


def serve_query(arguments: Namespace) -> int:
    """`polyc serve query`."""
    from polyc.cli import serving

    return serving.query(arguments)


def session_create(arguments: Namespace) -> int:
    """`polyc session create`."""
    from polyc.cli import people

    return people.session_create(arguments)


def persona_create(arguments: Namespace) -> int:
    """`polyc persona create`."""
    from polyc.cli import people

    return people.persona_create(arguments)


def persona_join(arguments: Namespace) -> int:
    """`polyc persona join`."""
    from polyc.cli import people

    return people.persona_join(arguments)


def persona_leave(arguments: Namespace) -> int:
    """`polyc persona leave`."""
    from polyc.cli import people

    return people.persona_leave(arguments)


def session_list(arguments: Namespace) -> int:
    """`polyc session list`."""
    from polyc.cli import people

    return people.session_list(arguments)


def session_revoke(arguments: Namespace) -> int:
    """`polyc session revoke`."""
    from polyc.cli import people

    return people.session_revoke(arguments)


def persona_suspend(arguments: Namespace) -> int:
    """`polyc persona suspend`."""
    from polyc.cli import people

    return people.persona_suspend(arguments)


def persona_resume(arguments: Namespace) -> int:
    """`polyc persona resume`."""
    from polyc.cli import people

    return people.persona_resume(arguments)


def admin_add(arguments: Namespace) -> int:
    """`polyc admin add`."""
    from polyc.cli import people

    return people.admin_add(arguments)


def admin_remove(arguments: Namespace) -> int:
    """`polyc admin remove`."""
    from polyc.cli import people

    return people.admin_remove(arguments)


def persona_list(arguments: Namespace) -> int:
    """`polyc persona list`."""
    from polyc.cli import people

    return people.persona_list(arguments)


def generations_list(arguments: Namespace) -> int:
    """`polyc generations list`."""
    from polyc.cli import generations

    return generations.listed(arguments)


def generations_show(arguments: Namespace) -> int:
    """`polyc generations show`."""
    from polyc.cli import generations

    return generations.show(arguments)


def generations_diff(arguments: Namespace) -> int:
    """`polyc generations diff`."""
    from polyc.cli import generations

    return generations.diff(arguments)


def gc(arguments: Namespace) -> int:
    """`polyc gc`."""
    from polyc.cli import generations

    return generations.gc(arguments)


def sql(arguments: Namespace) -> int:
    """`polyc sql`."""
    from polyc.cli import shell

    return shell.run(arguments)


def prove(arguments: Namespace) -> int:
    """`polyc prove`."""
    from polyc.cli import proving

    return proving.prove(arguments)


def receipt_verify(arguments: Namespace) -> int:
    """`polyc receipt verify`."""
    from polyc.cli import proving

    return proving.verify(arguments)


def erase(arguments: Namespace) -> int:
    """`polyc erase`."""
    from polyc.cli import erasing

    return erasing.run(arguments)


def export(arguments: Namespace) -> int:
    """`polyc export`."""
    from polyc.cli import archiving

    return archiving.exported(arguments)


def import_archive(arguments: Namespace) -> int:
    """`polyc import-archive`."""
    from polyc.cli import archiving

    return archiving.imported(arguments)


def backup(arguments: Namespace) -> int:
    """`polyc backup`."""
    from polyc.cli import archiving

    return archiving.backed_up(arguments)


def restore(arguments: Namespace) -> int:
    """`polyc restore`."""
    from polyc.cli import archiving

    return archiving.restored(arguments)


def fsck(arguments: Namespace) -> int:
    """`polyc fsck`."""
    from polyc.cli import archiving

    return archiving.checked(arguments)


def keys_list(arguments: Namespace) -> int:
    """`polyc keys list`."""
    from polyc.cli import keys

    return keys.listed(arguments)


def keys_add(arguments: Namespace) -> int:
    """`polyc keys add`."""
    from polyc.cli import keys

    return keys.add(arguments)


def keys_rotate(arguments: Namespace) -> int:
    """`polyc keys rotate`."""
    from polyc.cli import keys

    return keys.rotate(arguments)


def keys_revoke(arguments: Namespace) -> int:
    """`polyc keys revoke`."""
    from polyc.cli import keys

    return keys.revoke(arguments)


def witness_vkey(arguments: Namespace) -> int:
    """`polyc witness vkey`."""
    from polyc.cli import witnessing

    return witnessing.vkey(arguments)


def witness_ask(arguments: Namespace) -> int:
    """`polyc witness ask`."""
    from polyc.cli import witnessing

    return witnessing.ask(arguments)


def witness_serve(arguments: Namespace) -> int:
    """`polyc witness serve`."""
    from polyc.cli import witnessing

    return witnessing.serve(arguments)


def watch(arguments: Namespace) -> int:
    """`polyc watch`."""
    from polyc.cli import watching

    return watching.run(arguments)


def mcp(arguments: Namespace) -> int:
    """`polyc mcp`."""
    from polyc.cli import assisting

    return assisting.run(arguments)


def serve_mcp(arguments: Namespace) -> int:
    """`polyc serve mcp`."""
    from polyc.cli import assisting

    return assisting.serve(arguments)


def budget_set(arguments: Namespace) -> int:
    """`polyc budget set`."""
    from polyc.cli import money

    return money.budget_set(arguments)


def spending(arguments: Namespace) -> int:
    """`polyc spending`."""
    from polyc.cli import spending as command

    return command.run(arguments)


def price_set(arguments: Namespace) -> int:
    """`polyc price set`."""
    from polyc.cli import money

    return money.price_set(arguments)


def init(arguments: Namespace) -> int:
    """`polyc init`."""
    from polyc.cli import founding

    return founding.run(arguments)
