"""Histories in, questions out, evidence checked: what people use every day."""

from polyc.cli import commands
from polyc.cli.grammar.tree import Tree, add_form, add_subject
from polyc.cli.output import FORMATS


def add_histories(tree: Tree) -> None:
    """Add the commands about histories."""
    leaf = tree.command(
        "init",
        commands.init,
        "make a deployment; `polyc import` makes a plain one by itself",
        example="polyc init --encryption per-conversation",
    )
    leaf.add_argument(
        "--encryption",
        choices=("none", "per-conversation"),
        default="none",
        help="per-conversation: to erase is to destroy a key, which reaches every copy; cannot be changed later",
    )
    leaf = tree.command(
        "import",
        commands.import_histories,
        "read agent histories into the journal and project them",
        example="polyc import ~/.claude/projects",
    )
    leaf.add_argument(
        "paths", metavar="PATH", nargs="*", help="files or folders; none: the places where agents keep theirs"
    )
    leaf.add_argument("--no-project", action="store_true", help="append only; `polyc project` makes the tables later")
    leaf.add_argument(
        "--final", action="store_true", help="these files will not grow any more: last turns may count as ended"
    )
    leaf.add_argument(
        "--or-sample", action="store_true", help="when this machine has no histories, import the shipped sample"
    )
    leaf.add_argument(
        "--persona", metavar="NAME", help="who participates in what is imported (else the operating-system user)"
    )
    leaf.add_argument(
        "--report", action="store_true", help="list every line that could not be read: file, byte offset, reason"
    )
    leaf = tree.command(
        "project", commands.project, "make the tables of what the journal holds", example="polyc project --rebuild"
    )
    leaf.add_argument("--rebuild", action="store_true", help="from nothing: fold every partition again")
    leaf.add_argument("--compact", action="store_true", help="merge all packs afterwards")
    leaf = tree.command("status", commands.status, "say where journal and tables stand", example="polyc status --json")
    leaf.add_argument("--json", action="store_true", help="one JSON object")


def add_questions(tree: Tree) -> None:
    """Add the commands about questions."""
    leaf = tree.command(
        "query",
        commands.query,
        "ask one SQL statement under a grant of its own",
        example="polyc query 'SELECT model, COUNT(*) AS calls FROM model_call GROUP BY model'",
    )
    add_subject(leaf)
    leaf.add_argument(
        "--format", choices=FORMATS, help="default: table on a terminal, json (one object a row) in a pipe"
    )
    leaf.add_argument("--explain", action="store_true", help="the engine's plan instead of rows (admin only)")
    leaf.add_argument("--limit", metavar="ROWS", type=int, help="at most so many rows")
    leaf.add_argument("sql", metavar="SQL", help="the statement; - reads it from stdin")
    leaf = tree.command(
        "sql", commands.sql, "ask statement after statement, with completion and history", example="polyc sql --admin"
    )
    add_subject(leaf)
    leaf.add_argument("--format", choices=("table", "json", "csv"), help="default: table on a terminal, json in a pipe")
    leaf = tree.command(
        "grant", commands.grant, "print a short-lived token for the Query edge", example="polyc grant --persona alice"
    )
    add_subject(leaf)
    leaf = tree.command(
        "tables",
        commands.tables,
        "list the tables that a realm may name, with their columns",
        example="polyc tables --admin --format json",
    )
    leaf.add_argument("--admin", action="store_true", help="the fleet's tables too")
    add_form(leaf)
    leaf.add_argument("table", metavar="TABLE", nargs="?", help="one table's columns")


def add_evidence(tree: Tree) -> None:
    """Add the commands about evidence."""
    leaf = tree.command(
        "verify",
        commands.verify,
        "check the journal's evidence: digests, chains, signatures, checkpoints",
        example="polyc verify --json",
    )
    leaf.add_argument("--json", action="store_true", help="the whole report as one JSON object")
    leaf.add_argument(
        "--level",
        choices=("V1", "V1h", "V2"),
        default="V1",
        help="V1 digests, chains, tree, checkpoint; V1h and the signatures of markers, money, keys; V2 every signature",
    )
    leaf.add_argument(
        "--signatures", action="store_const", const="V2", dest="level", help="every signature: the same as --level V2"
    )
    leaf.add_argument("--artifacts", action="store_true", help="recompute the published tables too and compare them")
    leaf.add_argument("--policy", metavar="FILE", help="a policy file kept elsewhere, instead of the data root's own")
    leaf.add_argument(
        "--witness", metavar="VKEY", action="append", default=[], help="a witness to look for (repeatable)"
    )
    leaf = tree.command(
        "demo", commands.demo, "show in a temporary folder what a query can and cannot see", example="polyc demo"
    )
    leaf.add_argument("--keep", metavar="DIR", help="keep the demonstration's files in this new folder")
