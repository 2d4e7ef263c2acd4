"""What the projector is told about meaning: tables, folds and their version, as one value.

The default is `facts`; tests hand in a meaning of their own to try the machinery on rows they can count.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from artifacts.layout import TableSpec, spec_of
from facts.catalog import TABLES
from facts.fold import Fold
from facts.partition import FOLD_VERSION, open_fold
from facts.trust import Trust
from polyc import canonical
from polyc.keyring import KeyRing


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Tables in catalog order, and the way from a partition's records to their rows."""

    tables: tuple[TableSpec, ...]
    fold_version: str
    open_fold: Callable[[str, Trust], Fold]
    trust_of: Callable[[KeyRing], Trust]


def meaning_of_facts(*, trust_of: Callable[[KeyRing], Trust] | None = None) -> Meaning:
    """The shared folds and the whole catalog."""
    return Meaning(
        tables=tuple(spec_of(table) for table in TABLES.values()),
        fold_version=FOLD_VERSION,
        open_fold=open_fold,
        trust_of=trust_of or (lambda keys: Trust(keys=keys)),
    )


def trust_digest(trust: Trust, *, size: int) -> str:
    """What of the trust could have decided anything below this log index.

    A key added later changes nothing; a revocation or a back-dated key does: then everything is folded anew (ruling 7).
    """
    keys = sorted(
        [key.key_id.hex(), key.role, key.from_index, size if key.to_index is None else min(size, key.to_index)]
        for key in trust.keys.all()
        if key.from_index < size
    )
    signers = sorted(
        [
            s.key_id,
            s.algorithm,
            s.public_key.hex(),
            s.resource_prefix,
            s.valid_from_index,
            -1 if s.revoked_at_index is None else s.revoked_at_index,
        ]
        for s in trust.receipt_signers
    )
    return hashlib.sha256(canonical.encode([keys, signers])).hexdigest()
