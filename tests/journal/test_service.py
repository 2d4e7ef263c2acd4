"""The service: private sockets, health, reflection, deadlines, back-pressure, and a tail that gives each entry once."""

import itertools
import stat
import threading
from pathlib import Path

import grpc
import msgspec
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from journal import boot, server, wire
from journal.client import AuditClient, JournalClient
from journal.store import SqliteJournal
from polyc.appending import Draft
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.entry import append_preimage
from polyc.errors import CorruptError, RefusedError, UnavailableError
from polyc.ids import SystemIds
from polyc.keyring import KEYS_PARTITION
from polyc.published import load_key_bundle
from polyc.signing import load_signer, new_signer, verify
from polychrome.journal.v1 import journal_pb2 as pb
from polychrome.journal.v1 import journal_pb2_grpc as pb_grpc
from tests.journal.log import MESSAGE, Log, key_added
from tests.journal.running import Running


@pytest.fixture
def client(running: Running):
    with boot.connect(running.root, clock=SystemClock(), ids=SystemIds()) as client:
        yield client


def test_sockets_are_private_and_go_away_with_the_server(root: DataRoot):
    running = Running(root)
    for name in ("journal", "audit", "line"):
        assert stat.S_IMODE(root.socket(name).stat().st_mode) == 0o600
        assert stat.S_IMODE(root.socket(name).parent.stat().st_mode) == 0o700
    running.stop()
    assert not root.socket("journal").exists()


def test_connect_uses_the_running_writer_else_becomes_it(root: DataRoot):
    with boot.connect(root, clock=SystemClock(), ids=SystemIds()) as port:
        assert isinstance(port, SqliteJournal)
    running = Running(root)
    try:
        with boot.connect(root, clock=SystemClock(), ids=SystemIds()) as port:
            assert isinstance(port, JournalClient)
        with pytest.raises(UnavailableError) as refused:
            boot.open_embedded(root, clock=SystemClock(), ids=SystemIds())
        assert str(root.socket("journal")) in refused.value.message
    finally:
        running.stop()
    root.socket("journal").touch()  # what a killed server leaves is no server
    with boot.connect(root, clock=SystemClock(), ids=SystemIds()) as port:
        assert isinstance(port, SqliteJournal)


def test_health_and_reflection_answer(running: Running):
    with grpc.insecure_channel(f"unix:{running.root.socket('journal')}") as channel:
        checked = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service="polychrome.journal.v1.JournalService")
        )
        assert checked.status == health_pb2.HealthCheckResponse.SERVING
        asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        answer = next(reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(asked))
        names = {service.name for service in answer.list_services_response.service}
        assert "polychrome.journal.v1.JournalService" in names
        assert "polychrome.journal.v1.AuditService" not in names


def test_a_tail_gives_each_entry_once_across_restarts_and_from_any_index(running: Running, client):
    start = client.size()
    for i in range(5):
        running.say(client, f"conv-{i % 2}", f"{i}a", f"{i}b")
    seen, at = [], start
    for _restart in range(4):  # a reader that is killed after three entries goes on behind the last one
        for record in itertools.islice((r for r in client.tail(from_index=at) if r is not None), 2):
            seen.append(record)
            at = record.index + 1
    got = threading.Event()
    late = []

    def follow() -> None:
        for record in client.tail(from_index=at):
            if record is not None:
                late.append(record)
                if len(late) >= 4:
                    got.set()
                    return

    follower = threading.Thread(target=follow)
    follower.start()
    running.say(client, "conv-0", "5a", "5b")
    assert got.wait(30)
    follower.join()
    indexes = [record.index for record in [*seen, *late]]
    assert indexes == list(range(start, start + 12))
    assert {r.payload for r in [*seen, *late]} == {f"{i}{x}".encode() for i in range(6) for x in "ab"}


def test_the_audit_socket_appends_audit_events_and_nothing_else(running: Running):
    with AuditClient(running.root.socket("audit")) as audit:
        author = running.author(audit, "query")
        draft = Draft(96, b'{"type":"query_intent"}')
        assert author.append("query-audit-e-20261130", [draft]).first_position == 1
        assert author.append("query-audit-e-20261130", [draft]).first_position == 2
        for partition in ("conv-a", "sys-keys", "query-audit"):
            with pytest.raises(RefusedError) as refused:
                audit.head(partition)
            assert refused.value.code == "permission_denied"
        with pytest.raises(RefusedError):
            running.author(audit, "harness").append("conv-a", [Draft(MESSAGE, b"x")])
    with JournalClient(running.root.socket("audit")) as nosy, pytest.raises(UnavailableError):
        list(nosy.read("conv-a"))


def test_a_key_event_refreshes_what_edges_read(running: Running, client):
    before = load_key_bundle(running.root.published, running.root.policy()).position
    draft = key_added("edge", new_signer(SystemIds()), from_index=client.size())
    running.author(client, "root").append(KEYS_PARTITION, [draft])
    after = load_key_bundle(running.root.published, running.root.policy())
    assert after.position == before + 1
    assert [key.key_id for key in after.keys.all()] == [key.key_id for key in client.keyring().all()]


def test_appends_in_a_stream_are_answered_in_order(running: Running, client):
    from polyc import entry
    from polyc.appending import Head, sign_append

    signer = load_signer(running.root.keys / "harness.pem")
    ids, clock = SystemIds(), SystemClock()
    head = Head("conv-s", ids.token(16), 0, b"")
    head = Head("conv-s", head.incarnation, 0, entry.genesis(client.origin, "conv-s", head.incarnation))
    appends = []
    for i in range(150):
        signed = sign_append(
            [Draft(MESSAGE, str(i).encode())],
            head=head,
            origin=client.origin,
            signer=signer,
            append_id=ids.token(16),
            recorded_at_us=clock.now_us(),
            ids=ids,
        )
        head = Head("conv-s", head.incarnation, i + 1, entry.leaf_hash(signed.entries[0].header))
        appends.append(signed)
    acks = client.append_many(appends)
    assert [ack.first_position for ack in acks] == list(range(1, 151))
    assert [record.payload for record in client.read("conv-s")] == [str(i).encode() for i in range(150)]


def test_a_deadline_that_passes_says_that_the_append_may_still_be_sealed(log: Log):
    from journal import wire
    from polychrome.journal.v1 import journal_pb2 as pb

    with log.open() as store:
        hold, holding = threading.Event(), threading.Event()
        busy = threading.Thread(target=store._exclusively, args=(lambda _c: (holding.set(), hold.wait()),))
        busy.start()
        holding.wait()
        socket = log.folder / "j.sock"
        started = server.start_full(server.JournalServicer(store, on_keys=lambda: None), socket)
        with JournalClient(socket) as client:
            signed = log.sign("conv-a", b"one")
            request = pb.AppendRequest(append=wire.append_to_pb(signed))
            with pytest.raises(grpc.RpcError) as late:
                client._stub.Append(request, timeout=0.2)
            assert wire.explain(late.value).code == "deadline_exceeded"
            hold.set()
            busy.join()
            assert client.append(signed).repeated in (True, False)  # once, whenever it was sealed
            assert [record.payload for record in client.read("conv-a")] == [b"one"]
        started.stop(None).wait()


def test_a_client_without_a_server_says_that_it_is_unavailable(tmp_path: Path):
    with JournalClient(tmp_path / "none.sock") as client:
        assert not client.is_serving()
        with pytest.raises(UnavailableError):
            client.size()


def test_who_asks_for_entries_gets_each_as_it_is_stored_and_signatures_when_wanted(running: Running, client):
    running.say(client, "conv-a", "one", "two")
    running.say(client, "conv-a", "three")
    raws = list(client.read_raw("conv-a"))
    with grpc.insecure_channel(f"unix:{running.root.socket('journal')}") as channel:
        stub = pb_grpc.JournalServiceStub(channel)
        signed = stub.Read(pb.ReadRequest(partition="conv-a", from_position=2, signatures=True))
        head, *entries = signed
        assert head.head.position == 3
        found = [entry for answer in entries for entry in answer.entries]
        assert [(e.index, e.header, e.salt, e.payload, e.signature) for e in found] == [
            (raw.index, raw.header, raw.salt, raw.payload, raw.signature) for raw in raws[1:]
        ]
        bare = [e for answer in stub.Read(pb.ReadRequest(partition="conv-a")) for e in answer.entries]
        assert [(e.payload, e.signature) for e in bare] == [(b"one", b""), (b"two", b""), (b"three", b"")]
        start = raws[0].index
        ranged = stub.ReadAll(pb.ReadAllRequest(from_index=start + 1, to_index=start + 3))
        assert [e.payload for answer in ranged for e in answer.entries] == [b"two", b"three"]
        tail = stub.Tail(pb.TailRequest(from_index=start + 2))
        assert [e.payload for e in next(iter(tail)).entries] == [b"three"]
        tail.cancel()
        none = list(stub.Read(pb.ReadRequest(partition="conv-none", stored=True)))
        assert none == []


def test_a_range_that_begins_and_ends_within_appends_is_cut_there(running: Running, client):
    running.say(client, "conv-a", *[f"a{i}" for i in range(5)])
    running.say(client, "conv-b", *[f"b{i}" for i in range(5)])
    start = next(iter(client.read("conv-a"))).index
    assert [r.payload for r in client.read_all(from_index=start + 3, to_index=start + 7)] == [
        b"a3",
        b"a4",
        b"b0",
        b"b1",
    ]
    assert [r.payload for r in client.read("conv-a", from_position=4)] == [b"a3", b"a4"]
    assert [r.payload for r in client.read("conv-a", from_position=2, through_index=start + 2)] == [b"a1", b"a2"]
    assert [r.payload for r in itertools.islice(client.tail(from_index=start + 8), 2)] == [b"b3", b"b4"]
    assert [r.position for batch in client.read_batches("conv-b", from_position=5) for r in batch] == [5]
    assert list(client.read("conv-b", from_position=6)) == []
    with pytest.raises(RefusedError):
        list(client.read("conv-b", from_position=7))


def test_each_append_comes_with_its_authors_signature_from_the_store_and_over_the_socket(running: Running, client):
    running.say(client, "conv-a", "one", "two")
    running.say(client, "conv-a", "three")
    appends = list(client.read_signed("conv-a"))
    assert [len(append.records) for append in appends] == [2, 1]
    assert [record for append in appends for record in append.records] == list(client.read("conv-a"))
    keys = client.keyring()
    for append in appends:
        key = keys.get(append.records[0].key_id)
        assert verify(key.public_key, append.signature, append_preimage(client.origin, append.leaf))
    (later,) = list(client.read_signed("conv-a", from_position=3))
    assert later == appends[1]
    (cut, _last) = client.read_signed("conv-a", from_position=2)  # the leaf is the append's, whatever was asked for
    assert (cut.records, cut.leaf) == (appends[0].records[1:], appends[0].leaf)


def test_a_stream_that_was_changed_on_the_way_is_refused_by_the_client(running: Running, client, monkeypatch):
    running.say(client, "conv-a", "one", "two")
    running.say(client, "conv-a", "three")
    honest = wire.stored_of_pb

    def changed(message):
        stored = honest(message)
        if stored.position != 3:
            return stored
        return msgspec.structs.replace(stored, body=stored.body[:-1] + b"!")

    monkeypatch.setattr(wire, "stored_of_pb", changed)
    records = client.read("conv-a")
    assert [next(records).payload, next(records).payload] == [b"one", b"two"]
    with pytest.raises(CorruptError) as stopped:
        next(records)
    assert stopped.value.kind == "digest"
    monkeypatch.setattr(wire, "stored_of_pb", honest)
    messages = wire.batched_stored
    monkeypatch.setattr(wire, "batched_stored", lambda appends: messages(list(appends)[:-1]))
    with pytest.raises(CorruptError) as stopped:
        list(client.read("conv-a"))
    assert stopped.value.kind == "gap"
