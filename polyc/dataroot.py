"""Where the embedded default keeps its state (architecture.md, "Processes").

    <data root>/journal/    the log                     keys/      private keys (0700)
                artifacts/  packs and generations       published/ what edges need: key events, revocations
                blobs/      content by digest           run/       pointer to the sockets, process ids (0700)
                sources/    the importers' cursors (a rebuildable cache)
                policy.json origin and root public key: the trust anchor, to be copied out of band

Sockets live in a short 0700 runtime folder named by a hash of the data root, because a socket's path must stay
under 108 bytes (ruling 6); `run/sockets` names it.
"""

import hashlib
import os
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from polyc import strict_json
from polyc.durable import make_private_folder
from polyc.errors import CorruptError, RefusedError

HOME_VARIABLE: Final = "POLYC_HOME"
SOCKET_PATH_BYTES_MAX: Final = 107  # sun_path holds 108 bytes with its end (ruling 6)
PublicKeyHex = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a verifier must be given out of band: the log's name, its root key and the first log key (hex)."""

    origin: Annotated[str, msgspec.Meta(pattern=r"\A[^\s+\x00-\x20]{1,255}\Z")]  # a key name of c2sp.org/signed-note
    root_key: PublicKeyHex
    log_key: PublicKeyHex
    encryption: Literal["none", "per-conversation"] = "none"


def decode_policy(content: bytes, *, place: str) -> Policy:
    """The policy of a file's bytes; CorruptError for one that two readers could take for two, or that names no keys."""
    try:
        strict_json.decode(content)
        return msgspec.json.decode(content, type=Policy)
    except (msgspec.DecodeError, ValueError):  # whose texts may hold what stands there
        raise CorruptError("not a policy file", place=place, kind="policy") from None


class DataRoot:
    """The folders of one deployment; makes those that are missing."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def exists(self) -> bool:
        """Whether a deployment was made here."""
        return self.policy_file.exists()

    @property
    def policy_file(self) -> Path:
        """`policy.json`."""
        return self.path / "policy.json"

    @property
    def journal_file(self) -> Path:
        """The SQLite file of the embedded store."""
        return self.path / "journal" / "journal.sqlite"

    @property
    def artifacts(self) -> Path:
        """The artifact store's folder."""
        return self.path / "artifacts"

    @property
    def keys(self) -> Path:
        """The private keys' folder (0700)."""
        return self.path / "keys"

    @property
    def published(self) -> Path:
        """What Control and the journal publish for edges."""
        return self.path / "published"

    @property
    def blobs(self) -> Path:
        """Content-addressed large payloads."""
        return self.path / "blobs"

    @property
    def sources(self) -> Path:
        """The importers' cursors."""
        return self.path / "sources"

    def make(self) -> None:
        """Create the folders that are missing."""
        for name in ("journal", "artifacts", "published", "blobs", "sources"):
            (self.path / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private_folder(self.keys)
        make_private_folder(self.path / "run")

    def policy(self) -> Policy:
        """The policy file's content; RefusedError when there is no deployment here."""
        try:
            return decode_policy(self.policy_file.read_bytes(), place=str(self.policy_file))
        except FileNotFoundError:
            raise RefusedError(
                f"no deployment in {self.path}",
                code="failed_precondition",
                hint="polyc import makes one; --data-root chooses another",
            ) from None

    def socket(self, name: str) -> Path:
        """The path of a socket (`journal`, `audit`, `line`, `query`) in the short runtime folder."""
        base = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")  # noqa: S108 the folder is 0700 and named by a hash
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:12]
        name_of_folder = f"polyc-{os.getuid()}-{digest}"
        if len(os.fsencode(base / name_of_folder / "journal.sock")) > SOCKET_PATH_BYTES_MAX:
            base = Path("/tmp")  # noqa: S108 as above: a runtime folder too deep for a socket is no runtime folder
        folder = make_private_folder(base / name_of_folder)
        pointer = self.path / "run" / "sockets"
        if pointer.parent.is_dir() and not pointer.exists():
            pointer.write_text(f"{folder}\n")
        return folder / f"{name}.sock"


def default_data_root(option: str | None = None) -> DataRoot:
    """The data root the caller chose: the option, else `POLYC_HOME`, else `~/.local/share/polychrome`."""
    chosen = option or os.environ.get(HOME_VARIABLE)
    return DataRoot(Path(chosen) if chosen else Path.home() / ".local" / "share" / "polychrome")
