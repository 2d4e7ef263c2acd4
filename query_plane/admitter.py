"""The admitter: a process that reads artifacts for the edge and knows no statement (artifacts.md, "Admission").

It answers one question at a time (`query_plane.admission_wire`): whoever kills it fails the one query it worked for.
It is forked where the workers are (`query_plane.zygote`), with no environment and no network, and holds no key: what it
verifies manifests with is the published, public bundle. It writes nothing; generations are pinned by the edge.
"""

import os
import socket
from pathlib import Path
from typing import NoReturn

from artifacts.reader import Reader
from artifacts.store import DirectoryStore
from polyc.clock import SystemClock
from polyc.dataroot import DataRoot
from polyc.errors import PolycError, UnavailableError
from polyc.grants import ByReference
from polyc.ids import SystemIds
from polyc.published import EdgeTrust
from query_plane import admission_wire as wire
from query_plane.trusted import Admitted, TrustedReader
from query_plane.wire import receive_frame


def main(connection: socket.socket) -> NoReturn:
    """Answer until the edge is gone: never returns."""
    status = 0
    try:
        serve(connection)
    except OSError:
        status = 1  # the edge hung up; nobody is left to tell
    except BaseException:  # a forked process has no parent frame to raise into
        status = 2
    finally:
        os._exit(status)


def serve(connection: socket.socket) -> None:
    """Answer one question after the other."""
    reader: TrustedReader | None = None
    handed = Admitted()
    while (received := receive_frame(connection)) is not None:
        question = wire.decode_question(received[0])
        answer: wire.FromAdmitter
        try:
            match question:
                case wire.Open():
                    reader = _open(question)
                    answer = wire.Opened()
                case wire.Done():
                    handed.end()
                    answer = wire.Opened()
                case wire.Partitions() | wire.Admit():
                    assert reader is not None, "the edge opens before it asks"
                    answer, handed = _answer(reader, question)
        except PolycError as error:
            answer = wire.failed(error)
        except Exception:  # the text stays here: it may hold a path or a value
            answer = wire.failed(UnavailableError("rows could not be admitted", code="internal"))
        data = wire.framed(answer)
        sent = socket.send_fds(connection, [data], handed.descriptors) if handed.descriptors else 0
        connection.sendall(data[sent:])
        handed.close()


def _answer(reader: TrustedReader, question: wire.Partitions | wire.Admit) -> tuple[wire.Found | wire.Handed, Admitted]:
    match question:
        case wire.Partitions():
            reference = ByReference(
                persona_id=question.persona_id, index=question.index, digest=question.digest, count=question.count
            )
            return wire.Found(partitions=reader.partitions(question.generation, reference)), Admitted()
        case wire.Admit():
            admitted = reader.admit(question.generation, question.partitions, question.relations)
            told = wire.Handed(sources=admitted.sources, paths=admitted.paths, doors=admitted.on_end is not None)
            return told, admitted


def _open(question: wire.Open) -> TrustedReader:
    root, clock = DataRoot(Path(question.root)), SystemClock()
    policy = root.policy()
    trust = EdgeTrust(root.published, policy, clock=clock)
    reader = Reader(
        DirectoryStore(root.artifacts),
        keys=lambda: trust.bundle().keys,
        clock=clock,
        ids=SystemIds(),
        origin=policy.origin,
    )
    return TrustedReader(reader, eager_size_bytes_max=question.eager_size_bytes_max)
