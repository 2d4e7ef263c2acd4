"""What every command of the grammar is made of: a parser with our manners, leaves with an example, shared options."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

Run = Callable[[argparse.Namespace], int | None]


class Parser(argparse.ArgumentParser):
    """argparse with our manners: `polyc: error: …`, a hint, exit 2.

    `words` names the argument that takes what is no option although it begins with a dash; a note says that it did.
    """

    words: str | None = None

    def parse_known_args(  # type: ignore[override]  # argparse's overloads serve namespaces of other classes
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what is left over here, where the command is known: argparse hands it up to the first parser."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown and self.words is not None:
            dashed = " ".join(word for word in unknown if word.startswith("-"))
            if dashed:
                sys.stderr.write(f"polyc: note: taken as words, since no option is called so: {dashed}\n")
            setattr(parsed, self.words, [*getattr(parsed, self.words), *unknown])
            unknown = []
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments and how to learn more."""
        sys.stderr.write(f"polyc: error: invalid_argument: {message}\n")
        if message.startswith("unrecognized") or message.endswith("expected one argument"):
            sys.stderr.write("polyc: hint: a value that begins with a dash: --option=-value; words that do: after --\n")
        sys.stderr.write(f"polyc: hint: {self.prog} --help\n")
        raise SystemExit(2)


class Tree:
    """Adds commands to a parser, one level deep or two."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._children = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def command(self, name: str, run: Run, summary: str, *, example: str) -> Parser:
        """A leaf: a command that runs."""
        leaf: Parser = self._children.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        leaf.add_argument(
            "--data-root", metavar="DIR", default=argparse.SUPPRESS, help="where the deployment lives (else POLYC_HOME)"
        )
        leaf.set_defaults(run=run)
        return leaf

    def group(self, name: str, summary: str) -> "Tree":
        """A word that only gathers commands."""
        branch: Parser = self._children.add_parser(
            name, help=summary, description=summary[0].upper() + summary[1:] + "."
        )
        return Tree(branch)


def add_subject(leaf: Parser) -> None:
    """Who asks: an admin or a persona."""
    who = leaf.add_mutually_exclusive_group()
    who.add_argument("--admin", action="store_true", help="over the whole fleet, every table")
    who.add_argument(
        "--persona", metavar="NAME", help="over this persona's conversations (else the operating-system user's)"
    )


def add_form(leaf: Parser) -> None:
    """How rows are written."""
    leaf.add_argument("--format", choices=("table", "json", "csv"), help="default: table on a terminal, json in a pipe")
