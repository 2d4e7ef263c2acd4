"""Search and what it found."""

from polyc.cli import commands
from polyc.cli.grammar.tree import Parser, Tree, add_subject


def add_search(tree: Tree) -> None:
    """Add the commands about search."""
    leaf = tree.command(
        "search",
        commands.search,
        "find what was said or done, with evidence for each result",
        example='polyc search "retry handling" --workspace checkout --since 60d',
    )
    add_subject(leaf)
    _search_options(leaf)
    leaf.add_argument("words", metavar="WORDS", nargs="*", help="what to search for; text is text, no syntax")
    leaf.words = "words"  # text is never an error, not even `--no-verify`
    leaf = tree.command(
        "show", commands.show, "open an event or a conversation that a search named", example="polyc show 3e6529f259c3"
    )
    add_subject(leaf)
    leaf.add_argument("--context", metavar="N", type=int, default=0, help="events before and after it, too")
    leaf.add_argument("--format", choices=("text", "table", "json", "csv"), help="default: text")
    leaf.add_argument(
        "target", metavar="TARGET", help="a result's id, or a conversation or its beginning, whole or @POSITION"
    )

    _semantic(tree.group("semantic", "search by meaning: an opt-in beside the lexical search"))


def _semantic(tree: Tree) -> None:
    leaf = tree.command(
        "enable",
        commands.semantic_enable,
        "choose an executor and make the vectors",
        example="polyc semantic enable",
    )
    leaf.add_argument(
        "--executor",
        choices=("builtin", "external"),
        default="builtin",
        help="builtin: MiniLM on this machine (default)",
    )
    leaf.add_argument("--url", metavar="URL", help="external: an embeddings endpoint of the OpenAI form")
    leaf.add_argument(
        "--model",
        metavar="NAME",
        help="builtin: minilm (default) or multilingual-e5-small; external: the model to ask for",
    )
    leaf.add_argument("--space-id", metavar="ID", help="external: the name of its vector space, declared by you")
    leaf.add_argument("--dimensions", metavar="N", type=int, help="external: the length of its vectors")
    leaf.add_argument("--key-variable", metavar="NAME", help="external: the environment variable that holds the key")
    leaf.add_argument("--later", action="store_true", help="make no vectors now; polyc semantic sync does")
    tree.command(
        "disable", commands.semantic_disable, "go back to lexical search alone", example="polyc semantic disable"
    )
    tree.command("sync", commands.semantic_sync, "make the vectors that are missing", example="polyc semantic sync")
    tree.command(
        "rebuild",
        commands.semantic_rebuild,
        "forget the vectors and make them anew",
        example="polyc semantic rebuild",
    )
    leaf = tree.command(
        "status",
        commands.semantic_status,
        "say which executor is enabled and what still lacks its vectors",
        example="polyc semantic status --json",
    )
    leaf.add_argument("--json", action="store_true", help="one JSON object")


def _search_options(leaf: Parser) -> None:
    for option, help_text in (
        ("--term", "a further alternative (OR)"),
        ("--provider", "conversations of this origin, such as claude-code"),
        ("--provider-session", "the provider's own session id"),
        ("--workspace", "by repository, folder, or its last part"),
        ("--role", "user, assistant, system or tool"),
        ("--tool", "calls and outputs of this tool"),
        ("--file", "events that name this file: a path or its last parts"),
        ("--session", "within this conversation, every event; 8 characters suffice"),
        ("--exclude-session", "not within this conversation"),
        ("--source-root", "conversations that ran in this folder or below; with --source-group one set (OR)"),
        ("--source-group", "conversations of this repository, by its exact name"),
        ("--event-type", "message, summary, tool_call, tool_output or other"),
    ):
        leaf.add_argument(
            option, metavar=option[2:].upper(), action="append", default=[], help=f"{help_text}; repeatable"
        )
    leaf.add_argument("--since", metavar="TIME", help="RFC 3339, a date, or days as 60d")
    leaf.add_argument("--until", metavar="TIME", help="before this time")
    leaf.add_argument("--primary-only", action="store_true", help="without subagents' conversations")
    leaf.add_argument("--content-scope", choices=("all", "transcript", "calls", "outputs"), help="default: all")
    leaf.add_argument("--events", action="store_true", help="every matching event, not the best of each conversation")
    leaf.add_argument("--limit", metavar="N", type=int, default=20, help="results, at most 200 (default 20)")
    leaf.add_argument(
        "--backend", dest="mode", choices=("hybrid", "semantic", "lexical"), default="hybrid", help="default: hybrid"
    )
    leaf.add_argument(
        "--semantic-weight", metavar="W", type=float, help="0 (exactly lexical) to 1; default: both alike"
    )
    leaf.add_argument("--refresh", choices=("background", "off", "wait"), default="background", help="how fresh")
    leaf.add_argument("--cursor", metavar="CURSOR", help="the next page of this same search")
    leaf.add_argument("--include-current-session", action="store_true", help="also the session this is run from")
    leaf.add_argument("--facets", action="store_true", help="counts by kind, role, tool, provider (json)")
    leaf.add_argument("--explain", action="store_true", help="score components and decisions (json)")
    leaf.add_argument("--verbose", action="store_true", help="complete ids, folders, lineage")
    leaf.add_argument("--format", choices=("text", "json"), help="default: text")
