"""The start-up self-test: attacks a sealed worker and the gate, and refuses to serve when one passes (ruling 35).

Settings that are set late, or in another order, protect nothing and say nothing (B08); so every start tries. A probe
that gives no answer is tried again, and then the edge does not start either: fail closed.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from polyc.durable import make_private_folder
from polyc.errors import RefusedError, UnavailableError
from query_plane import gate, wire
from query_plane.attacks import ON_THE_GATE, ON_THE_SEAL
from query_plane.names import relations_of
from query_plane.pool import WorkerLostError, WorkerPool
from query_plane.seal import Sandbox
from query_plane.trusted import Admitted

_DEADLINE_MS: Final = 60_000  # generous: a busy machine must not keep an edge from starting
_ATTEMPTS: Final = 3  # a probe that ends without an answer says nothing; three of them say that it cannot be had
_KEYS_MAX: Final = 64  # files of `keys/` that are tried; a deployment has about ten


class SelfTestError(UnavailableError):
    """Something that must not pass did: this machine cannot serve queries safely."""

    def __init__(self, attacks: Sequence[str]) -> None:
        super().__init__(
            f"the self-test got out of the sandbox: {'; '.join(attacks)}",
            code="failed_precondition",
            hint="a kernel with Landlock and seccomp is needed; sandbox = off serves without them, at your risk",
        )
        self.attacks = tuple(attacks)


class SelfTestIncompleteError(UnavailableError):
    """The self-test could not be carried out: nothing is known, so nothing is served."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the self-test could not be completed: {reason}", hint="try again; is the machine overloaded?"
        )


async def self_test(pool: WorkerPool, *, keys: Path, folder: Path, sandbox: Sandbox) -> None:
    """Return when everything was withstood; SelfTestError names what was not.

    `folder` is the edge's own: the one file that the fleet's probe may read lies there.

    1. The gate refuses its attacks. 2. A worker sealed for a restricted scope (no file at all) withstands the list.
    3. So does one sealed for the fleet, which may read one file and nothing beside it.
    """
    # 1
    passed = [attack.name for attack in ON_THE_GATE if _gate_passes(attack.sql)]
    # 2
    targets = await asyncio.to_thread(_targets, keys, folder)
    passed += await _probe(pool, [], targets=targets, sandbox=sandbox)
    # 3
    passed += await _probe(pool, [targets.admitted], targets=targets, sandbox=sandbox)
    if passed:
        raise SelfTestError(passed)


class _Targets(msgspec.Struct, frozen=True, kw_only=True):
    """What is attacked: the keys, a file that no query is ever admitted to, a folder; and one file that is admitted."""

    keys: list[str]
    outside: str
    folder: str
    admitted: str


def _targets(keys: Path, folder: Path) -> _Targets:
    """Files of our own, so that nobody collects them while they are attacked."""
    pems = sorted(str(path) for path in keys.glob("*.pem"))[:_KEYS_MAX]
    make_private_folder(folder)
    for name in ("admitted", "outside"):
        pq.write_table(pa.table({"i": [1]}), folder / f"self-test-{name}.parquet")
    outside, admitted = (str(folder / f"self-test-{name}.parquet") for name in ("outside", "admitted"))
    return _Targets(keys=pems, outside=outside, folder=str(folder), admitted=admitted)


async def _probe(pool: WorkerPool, paths: list[str], *, targets: _Targets, sandbox: Sandbox) -> list[str]:
    """What passed in one sealed worker."""
    admitted = Admitted()
    admitted.add_rows("probe", pa.table({"i": [1]}))
    run = wire.Run(
        sources=admitted.sources,
        paths=paths,
        want="json",
        row_limit=1,
        byte_limit=1,
        deadline_ms=_DEADLINE_MS,
        threads=1,
        trailer={},
    )
    key = next(iter(targets.keys), targets.outside)  # without keys beside it there is none to steal
    statements = [attack.sql.format(key=key, outside=targets.outside, folder=targets.folder) for attack in ON_THE_SEAL]
    files = [*targets.keys, targets.outside]
    message = wire.Probe(run=run, statements=statements, files=files, try_kernel=sandbox != "off")
    try:
        for attempt in range(_ATTEMPTS):
            worker = await pool.acquire()
            try:
                return (await worker.probe(message, admitted.descriptors)).attacks
            except WorkerLostError as error:
                if attempt == _ATTEMPTS - 1:
                    raise SelfTestIncompleteError(str(error)) from None
            finally:
                worker.close()
    finally:
        admitted.close()
    raise AssertionError("the loop returns or raises")


def _gate_passes(sql: str) -> bool:
    try:
        gate.check(sql, relations=relations_of("participant"))
    except RefusedError:
        return False
    # What sqlglot alone takes for a column or a plain name is the second parser's to refuse: see tests.
    return sql != "SELECT (SHOW TABLES)"
