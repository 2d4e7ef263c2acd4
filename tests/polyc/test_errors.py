"""Errors say who must do what; one of a worker process says the same in its parent."""

import pickle

import pytest

from polyc.errors import ConflictError, CorruptError, PolycError, RefusedError, UnavailableError


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("no", code="not_found", hint="look elsewhere"),
        ConflictError("too late", actual=7),
        UnavailableError("later"),
        CorruptError("not what it should be", place="conv-a/1", kind="chain"),
    ],
)
def test_an_error_crosses_processes_as_it_is(error: PolycError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))
