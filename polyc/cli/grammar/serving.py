"""Processes, people and money."""

from polyc.cli import commands
from polyc.cli.grammar.tree import Tree, add_form, add_subject


def add_services(tree: Tree) -> None:
    """Add the commands about services."""
    leaf = tree.command(
        "up", commands.up, "serve everything on this machine until SIGTERM", example="polyc up --port 8420"
    )
    leaf.add_argument(
        "--port", metavar="N", type=int, default=8420, help="Control on N, Query edge on N+1 (default 8420)"
    )
    leaf.add_argument("--no-watch", action="store_true", help="do not follow this machine's agent histories")
    leaf = tree.command(
        "watch",
        commands.watch,
        "follow agent histories and import what is written",
        example="polyc watch ~/.claude/projects",
    )
    leaf.add_argument(
        "paths", metavar="PATH", nargs="*", help="files or folders; none: the places where agents keep theirs"
    )
    leaf.add_argument(
        "--persona", metavar="NAME", help="who participates in what is imported (else the operating-system user)"
    )
    leaf = tree.command(
        "mcp",
        commands.mcp,
        "let an assistant ask with your session (POLYCHROME_SESSION), over stdio",
        example="polyc mcp --control-port 8420",
    )
    leaf.add_argument(
        "--control-port", metavar="N", type=int, default=8420, help="Control's port; the edge is N+1 (default 8420)"
    )
    serve = tree.group("serve", "run one process of a deployment")
    leaf = serve.command(
        "mcp",
        commands.serve_mcp,
        "serve assistants over HTTP; each brings its own bearer",
        example="polyc serve mcp --port 8422",
    )
    leaf.add_argument("--port", metavar="N", type=int, default=8422, help="loopback port (default 8422)")
    leaf.add_argument(
        "--control-port", metavar="N", type=int, default=8420, help="Control's port; the edge is N+1 (default 8420)"
    )
    serve.command(
        "journal",
        commands.serve_journal,
        "serve the log on a Unix socket, as its only writer",
        example="polyc serve journal",
    )
    serve.command(
        "projector",
        commands.serve_projector,
        "follow the journal and publish generations",
        example="polyc serve projector",
    )
    for name, run, port in (("control", commands.serve_control, 8420), ("query", commands.serve_query, 8421)):
        leaf = serve.command(
            name, run, f"serve the {name} plane over HTTP", example=f"polyc serve {name} --port {port}"
        )
        leaf.add_argument("--port", metavar="N", type=int, default=port, help=f"loopback port (default {port})")


def add_people(tree: Tree) -> None:
    """Add the commands about people."""
    session = tree.group("session", "sessions: bearers that may mint grants")
    leaf = session.command(
        "create",
        commands.session_create,
        "print a new session's bearer",
        example="polyc session create --persona alice",
    )
    add_subject(leaf)
    leaf = session.command(
        "list", commands.session_list, "list the live sessions, without their bearers", example="polyc session list"
    )
    add_form(leaf)
    leaf = session.command("revoke", commands.session_revoke, "end a session now", example="polyc session revoke 01a2…")
    leaf.add_argument("credential", metavar="CREDENTIAL", help="the session's credential id, from the list")
    persona = tree.group("persona", "personas: who may see which conversations")
    leaf = persona.command("create", commands.persona_create, "record a persona", example="polyc persona create alice")
    leaf.add_argument("name", metavar="NAME", help="a-z, 0-9, '.', '_', '-'")
    leaf = persona.command("list", commands.persona_list, "list the personas", example="polyc persona list")
    add_form(leaf)
    for verb, run, summary in (
        ("join", commands.persona_join, "let a persona participate in a conversation"),
        ("leave", commands.persona_leave, "end a persona's participation"),
    ):
        leaf = persona.command(verb, run, summary, example=f"polyc persona {verb} alice conv-imp-…")
        leaf.add_argument("name", metavar="NAME", help="the persona")
        leaf.add_argument("partition", metavar="CONVERSATION", help="the conversation's partition")
    for verb, run, summary in (
        ("suspend", commands.persona_suspend, "end all that a persona's sessions and grants are good for"),
        ("resume", commands.persona_resume, "let a suspended persona act again"),
    ):
        leaf = persona.command(verb, run, summary, example=f"polyc persona {verb} alice")
        leaf.add_argument("name", metavar="NAME", help="the persona")
    admin = tree.group("admin", "admins: who may ask over the whole fleet")
    for verb, run, summary in (
        ("add", commands.admin_add, "mark a persona as an admin"),
        ("remove", commands.admin_remove, "take the mark away; admin sessions and fleet grants end"),
    ):
        leaf = admin.command(verb, run, summary, example=f"polyc admin {verb} alice")
        leaf.add_argument("name", metavar="NAME", help="the persona")


def add_money(tree: Tree) -> None:
    """Add the commands about money."""
    budget = tree.group("budget", "what may be spent")
    leaf = budget.command(
        "set",
        commands.budget_set,
        "set a budget; 0 forbids all spending",
        example="polyc budget set --persona alice --asset USDC --network base --amount 5000000",
    )
    who = leaf.add_mutually_exclusive_group(required=True)
    who.add_argument("--persona", metavar="NAME", help="of a persona")
    who.add_argument("--wallet", metavar="WALLET", help="of a wallet")
    who.add_argument("--conversation", metavar="ID", help="of a conversation")
    leaf.add_argument("--asset", metavar="ASSET", required=True, help="what is spent")
    leaf.add_argument("--network", metavar="NETWORK", required=True, help="where")
    leaf.add_argument("--amount", metavar="UNITS", type=int, required=True, help="in the asset's base units")
    leaf.add_argument("--window-s", metavar="SECONDS", type=int, help="within so many seconds (else altogether)")
    leaf = tree.command(
        "spending",
        commands.spending,
        "what was spent and what is reserved, from verified records of the journal, per asset",
        example="polyc spending --persona alice --window-s 86400",
    )
    who = leaf.add_mutually_exclusive_group(required=True)
    who.add_argument("--persona", metavar="NAME", help="by a persona")
    who.add_argument("--wallet", metavar="WALLET", help="from a wallet")
    who.add_argument("--conversation", metavar="PARTITION", help="in a conversation")
    leaf.add_argument("--window-s", metavar="SECONDS", type=int, help="settled within so many seconds (else ever)")
    add_form(leaf)
    price = tree.group("price", "what a model's tokens cost")
    leaf = price.command(
        "set",
        commands.price_set,
        "set a model's prices from a day on, for a million tokens",
        example="polyc price set gpt-5.1-codex --from 2026-11-01 --currency USD --input 1.25 --output 10",
    )
    leaf.add_argument("model", metavar="MODEL", help="as in model_call.model")
    leaf.add_argument("--from", dest="valid_from", metavar="DAY", required=True, help="YYYY-MM-DD")
    leaf.add_argument("--currency", metavar="CODE", required=True, help="for example USD")
    for name in ("input", "output", "cache-read", "cache-write"):
        leaf.add_argument(
            f"--{name}", metavar="MONEY", help=f"decimal text for a million {name.replace('-', ' ')} tokens"
        )
