"""From an error to a message on stderr and an exit code."""

from __future__ import annotations

import pytest

from cortex_plane import (
    Conflict,
    CortexError,
    Denied,
    InvalidInput,
    JobCancelled,
    JobFailed,
    JobNotFound,
    NotFound,
    Unavailable,
    UnknownAgent,
)
from cortex_plane.cli.errors import exit_code_of, guarded
from cortex_plane.errors import DatabaseConfigError, StorageFull


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CortexError("x"), 1),
        (InvalidInput("x"), 2),
        (NotFound("x"), 3),
        (JobNotFound("x"), 3),
        (UnknownAgent("x", []), 3),
        (Conflict("x"), 4),
        (Unavailable("x"), 5),
        (DatabaseConfigError("x"), 5),
        (StorageFull("x"), 5),
        (Denied("x"), 6),
        (JobFailed("x", "y"), 7),
        (JobCancelled("x"), 7),
    ],
)
def test_each_family_of_errors_has_its_exit_code(error: CortexError, code: int) -> None:
    assert exit_code_of(error) == code


def raising(error: BaseException) -> int:
    def run() -> int:
        raise error

    return guarded(run)


def test_our_errors_are_told_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(Conflict("It is running. Stop it first.")) == 4
    assert capsys.readouterr() == ("", "Error: It is running. Stop it first.\n")


def test_an_unexpected_error_is_told_with_the_way_to_see_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(KeyError("x")) == 1
    assert (
        capsys.readouterr().err
        == """\
Error: Unexpected error: KeyError: 'x'
For a traceback, set CORTEX_LOG_LEVEL=debug and try again. If it is a bug in Cortex Plane, please report it.
"""
    )


def test_the_debug_level_shows_the_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_LOG_LEVEL", "debug")

    assert raising(Conflict("It is running.")) == 4
    assert capsys.readouterr().err.startswith("Traceback (most recent call last):\n")


def test_an_interruption_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(KeyboardInterrupt()) == 130
    assert capsys.readouterr() == ("", "Interrupted.\n")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("postgresql://ada:ge@he:im@host:5432/db is away", "postgresql://ada:***@host:5432/db is away"),
        ("'postgres://:geheim@/db'", "'postgres://:***@/db'"),
        ("postgresql://host/db?user=a&password=geheim&x=1", "postgresql://host/db?user=a&password=***&x=1"),
        ("Use postgresql://user:password@host/database.", "Use postgresql://user:password@host/database."),
        ("postgresql://ada@host/db and sqlite:///a:b@c.db", "postgresql://ada@host/db and sqlite:///a:b@c.db"),
    ],
)
def test_no_message_shows_a_password(capsys: pytest.CaptureFixture[str], message: str, told: str) -> None:
    raising(Unavailable(message))

    assert capsys.readouterr().err == f"Error: {told}\n"
