"""What keeps a deployment whole: receipts, copies, erasure, keys, witnesses, generations."""

from polyc.cli import commands
from polyc.cli.grammar.tree import Tree, add_form
from polyc.vocabulary import ROLES


def add_copies(tree: Tree) -> None:
    """Add the commands about copies."""
    leaf = tree.command(
        "prove",
        commands.prove,
        "write a receipt: a small file that proves one entry offline",
        example="polyc prove conv-imp-… 7",
    )
    leaf.add_argument("partition", metavar="PARTITION", help="the row's partition")
    leaf.add_argument("position", metavar="POSITION", type=int, help="the row's position")
    leaf.add_argument("--incarnation", metavar="HEX", help="the row's source_incarnation (else the current one)")
    leaf.add_argument("--out", metavar="FILE", help="where to write it; - is stdout")
    receipt = tree.group("receipt", "receipts, on a machine that has only a policy file")
    leaf = receipt.command(
        "verify",
        commands.receipt_verify,
        "check a receipt offline and say what it proves",
        example="polyc receipt verify conv-imp-a-7.tlog-proof --policy policy.json",
    )
    leaf.add_argument("file", metavar="FILE", help="the receipt; - is stdin")
    leaf.add_argument("--policy", metavar="FILE", required=True, help="the policy file, kept apart from the journal")
    leaf.add_argument(
        "--witness", metavar="VKEY", action="append", default=[], help="a witness to look for (repeatable)"
    )
    leaf.add_argument("--trust", metavar="FILE", help="a C2SP trust policy: whose signatures it must bear")
    leaf = tree.command(
        "erase",
        commands.erase,
        "take content out of journal and tables; the record that it was there stays",
        example="polyc erase conv-imp-… 7 --prove-gone",
    )
    leaf.add_argument("partition", metavar="PARTITION", help="the conversation")
    leaf.add_argument("position", metavar="POSITION", type=int, nargs="?", help="one event; none: all of it")
    leaf.add_argument("--reason", metavar="CODE", default="", help="a code for the record, never free text of a person")
    leaf.add_argument("--prove-gone", action="store_true", help="search every artifact for the content afterwards")
    leaf = tree.command(
        "export", commands.export, "write the sealed journal as immutable files", example="polyc export /mnt/archive"
    )
    leaf.add_argument("folder", metavar="DIR", help="the archive's folder; a second export adds what is new")
    leaf = tree.command(
        "import-archive",
        commands.import_archive,
        "make a new deployment's journal from an archive",
        example="polyc import-archive /mnt/archive --data-root /tmp/copy",
    )
    leaf.add_argument("folder", metavar="DIR", help="the archive's folder")
    leaf.add_argument("--policy", metavar="FILE", help="a policy file kept elsewhere, instead of the archive's own")
    leaf = tree.command(
        "backup",
        commands.backup,
        "copy the journal, beside a running writer",
        example="polyc backup /mnt/backup/monday",
    )
    leaf.add_argument("folder", metavar="DIR", help="an empty or new folder")
    leaf = tree.command(
        "restore",
        commands.restore,
        "put a backup in the journal's place, unless something has seen more",
        example="polyc restore /mnt/backup/monday",
    )
    leaf.add_argument("folder", metavar="DIR", help="the backup's folder")
    leaf.add_argument("--policy", metavar="FILE", help="a policy file kept elsewhere, instead of the backup's own")
    leaf = tree.command(
        "fsck", commands.fsck, "compare what the journal's file derives from its entries", example="polyc fsck --repair"
    )
    leaf.add_argument("--repair", action="store_true", help="make the derived parts anew; entries are never touched")


def add_keys(tree: Tree) -> None:
    """Add the commands about keys."""
    keys = tree.group("keys", "which key holds which role from when to when")
    leaf = keys.command("list", commands.keys_list, "list every key that the log ever named", example="polyc keys list")
    add_form(leaf)
    leaf = keys.command(
        "add",
        commands.keys_add,
        "give a key that was made elsewhere a role",
        example=f"polyc keys add harness {'4f' * 32} --name laptop",
    )
    leaf.add_argument("role", metavar="ROLE", choices=[role for role in ROLES if role != "root"], help="any but root")
    leaf.add_argument("public_key", metavar="PUBLIC_KEY", help="the raw Ed25519 public key, 64 hex digits")
    leaf.add_argument("--from-index", metavar="INDEX", type=int, help="where it begins (else at the log's present end)")
    leaf.add_argument("--to-index", metavar="INDEX", type=int, help="where it ends (else nowhere)")
    leaf.add_argument("--name", metavar="NAME", default="", help="a name for the list")
    leaf = keys.command(
        "rotate", commands.keys_rotate, "put a new key in a role's place", example="polyc keys rotate importer"
    )
    leaf.add_argument("role", metavar="ROLE", choices=[role for role in ROLES if role != "root"], help="any but root")
    leaf.add_argument("--overlap", metavar="ENTRIES", type=int, default=1000, help="how long both act (default 1000)")
    leaf = keys.command(
        "revoke",
        commands.keys_revoke,
        "end a key at an index of the log",
        example="polyc keys revoke 72114abc315bf96e --reason lost",
    )
    leaf.add_argument("key_id", metavar="KEY", help="16 hex digits, from the list")
    leaf.add_argument("--from-index", metavar="INDEX", type=int, help="where it ends (else at the log's present end)")
    leaf.add_argument("--reason", metavar="CODE", default="", help="a code for the record")
    witness = tree.group("witness", "others who remember how long the log was")
    witness.command(
        "vkey", commands.witness_vkey, "print the log's verifier key, for a witness", example="polyc witness vkey"
    )
    leaf = witness.command(
        "ask",
        commands.witness_ask,
        "have a witness cosign the log's present end",
        example="polyc witness ask http://127.0.0.1:8500 'example+…'",
    )
    leaf.add_argument("url", metavar="URL", help="where the witness answers")
    leaf.add_argument("witness", metavar="VKEY", help="the witness's verifier key")
    leaf = witness.command(
        "serve",
        commands.witness_serve,
        "be a witness for logs, on loopback",
        example="polyc witness serve ./witness example.org/w --log 'polychrome.local/…'",
    )
    leaf.add_argument("folder", metavar="DIR", help="where the witness keeps its key and what it saw")
    leaf.add_argument("name", metavar="NAME", help="the witness's name")
    leaf.add_argument("--log", metavar="VKEY", action="append", required=True, help="a log to follow (repeatable)")
    leaf.add_argument("--port", metavar="N", type=int, default=8500, help="loopback port (default 8500)")


def add_artifacts(tree: Tree) -> None:
    """Add the commands about artifacts."""
    generations = tree.group("generations", "what was published, generation by generation")
    leaf = generations.command(
        "list", commands.generations_list, "list the generations that are kept", example="polyc generations list"
    )
    add_form(leaf)
    leaf = generations.command(
        "show",
        commands.generations_show,
        "print one generation's verified manifest",
        example="polyc generations show 3",
    )
    leaf.add_argument("number", metavar="NUMBER", type=int, help="the generation")
    leaf = generations.command(
        "diff",
        commands.generations_diff,
        "print what changed between two generations",
        example="polyc generations diff 2 3",
    )
    leaf.add_argument("before", metavar="OLDER", type=int, help="the one before")
    leaf.add_argument("after", metavar="NEWER", type=int, help="the one after")
    leaf = tree.command(
        "gc",
        commands.gc,
        "delete artifacts that no kept generation and no running query needs",
        example="polyc gc --dry-run",
    )
    leaf.add_argument("--dry-run", action="store_true", help="only list them")
