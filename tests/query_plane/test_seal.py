"""A sealed worker cannot get out; the self-test notices when one can."""

import asyncio

import pytest

from query_plane import selftest
from query_plane.attacks import ON_THE_GATE, ON_THE_SEAL, Attack
from query_plane.pool import Worker, WorkerPool
from query_plane.seal import landlock_version
from query_plane.selftest import SelfTestError, SelfTestIncompleteError, self_test


def attack(root, sandbox="require"):
    async def run():
        pool = WorkerPool(spares=0, sandbox=sandbox)
        try:
            await self_test(pool, keys=root.keys, folder=root.path / "edge", sandbox=sandbox)
        finally:
            await pool.close()

    asyncio.run(run())


def test_this_kernel_can_seal():
    assert landlock_version() >= 1, "the tests of the sandbox need Landlock"


def test_the_sealed_worker_withstands_every_attack(deployment):
    attack(deployment.root)


def test_a_hole_in_the_engines_seal_is_noticed_and_named(deployment, monkeypatch):
    monkeypatch.setattr(
        selftest, "ON_THE_SEAL", (*ON_THE_SEAL, Attack("reads what it was given", "SELECT * FROM probe"))
    )
    with pytest.raises(SelfTestError) as caught:
        attack(deployment.root)
    assert caught.value.attacks == ("statement: SELECT * FROM probe",) * 2


def test_a_hole_in_the_gate_is_noticed(deployment, monkeypatch):
    monkeypatch.setattr(selftest, "ON_THE_GATE", (*ON_THE_GATE, Attack("reads", "SELECT 1")))
    with pytest.raises(SelfTestError, match="reads"):
        attack(deployment.root)


def test_a_worker_without_walls_is_noticed(deployment, monkeypatch):
    real = WorkerPool

    def without_walls(*, spares, sandbox):
        return real(spares=spares, sandbox="off")

    async def run():
        pool = without_walls(spares=0, sandbox="off")
        try:
            await self_test(pool, keys=deployment.root.keys, folder=deployment.root.path / "edge", sandbox="auto")
        finally:
            await pool.close()

    with pytest.raises(SelfTestError) as caught:
        asyncio.run(run())
    assert any(name.startswith("file: ") and name.endswith("query.pem") for name in caught.value.attacks)
    assert any(name.startswith("kernel: ") for name in caught.value.attacks)
    assert not any(name.startswith("statement: ") for name in caught.value.attacks), "the engine's own seal holds alone"


def test_a_probe_that_cannot_be_carried_out_serves_nothing_and_claims_no_hole(deployment, monkeypatch):
    real = Worker.probe

    async def killed(self, message, descriptors):
        self.kill()
        return await real(self, message, descriptors)

    monkeypatch.setattr(Worker, "probe", killed)
    with pytest.raises(SelfTestIncompleteError, match="could not be completed"):
        attack(deployment.root)
