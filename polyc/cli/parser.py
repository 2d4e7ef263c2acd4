"""All of the command line as one parser; the grammar stands in `polyc.cli.grammar`, by what commands are for.

`--data-root` is understood before and after the command. Each leaf has a `run` function taken from `commands`.
"""

import argparse

from polyc.cli import commands
from polyc.cli.grammar.asking import add_evidence, add_histories, add_questions
from polyc.cli.grammar.keeping import add_artifacts, add_copies, add_keys
from polyc.cli.grammar.searching import add_search
from polyc.cli.grammar.serving import add_money, add_people, add_services
from polyc.cli.grammar.tree import Parser, Tree


class _Version(argparse.Action):
    """Prints the version; it is looked up then and not before, which would cost every command 20 ms."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"polyc {commands.version()}")
        parser.exit()


def build_parser() -> Parser:
    """All of the command line."""
    parser = Parser(
        prog="polyc", description="Signed histories of agents in, SQL under a grant out.", allow_abbrev=False
    )
    parser.add_argument("--data-root", metavar="DIR", default=None, help="where the deployment lives (else POLYC_HOME)")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the program's version and exit")
    tree = Tree(parser)
    add_histories(tree)
    add_questions(tree)
    add_search(tree)
    add_evidence(tree)
    add_copies(tree)
    add_keys(tree)
    add_artifacts(tree)
    add_services(tree)
    add_people(tree)
    add_money(tree)
    return parser
