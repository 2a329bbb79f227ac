"""What every system runs: ten steps (three effects, one random), two questions, one payment, six calls in parallel.

Standard library only: peers run in another environment."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from conformance.boundaries import Boundaries

STEPS = ("look", "draw", "pay", "read", "mail", "think", "plan", "book", "tidy", "close")
EFFECTS = ("pay", "mail", "book")
CHANCE = "draw"
QUESTIONS = ("first", "second")
BROKEN_STEP = "think"
"""The step that fails while the outage lasts."""
CALLS = ("a", "b", "c", "d", "e", "f")
REFUSED = ("b", "e")
"""The parallel calls that are refused once each."""


class Outage(Exception):
    """A service that a step needs is down."""


class Refused(Exception):
    """A service is busy: try again."""


class Doings:
    """What the steps do in one process, and the trail that they leave in files which no database can take back."""

    def __init__(self, folder: Path, process: str, boundaries: Boundaries) -> None:
        self.boundaries = boundaries
        self._trace = folder / f"{process}.trace"
        self._effects = folder / "effects"
        self._given = folder / "given"
        self._outage = folder / "outage"
        self._keys = folder / "keys"
        self._calls = folder / "calls"

    def perform(self, step: str) -> str:
        append(self._trace, step)
        if step == BROKEN_STEP and self._outage.exists():
            raise Outage(step)
        if step in EFFECTS:
            with self.boundaries.around(f"effect {step}"):
                append(self._effects, step)
        return f"{step} {secrets.token_hex(8)}" if step == CHANCE else expected(step)

    def has_happened(self, step: str) -> bool:
        """What a system may ask about an effect in doubt: in real life, the bank or the mail server would be asked."""
        return step in lines(self._effects)

    def pay(self, key: str) -> str:
        """A payment under an idempotency key. The first call is refused, so every system repeats it at least once."""
        with self.boundaries.around("payment"):
            append(self._keys, key)
        if len(lines(self._keys)) == 1:
            raise Refused("pay")
        return expected("pay")

    def call(self, name: str) -> str:
        """One of the parallel calls. Some are refused the first time."""
        append(self._calls, name)
        if name in REFUSED and lines(self._calls).count(name) == 1:
            raise Refused(name)
        return expected(name)

    def answer(self, question: str) -> str:
        return f"yes to the {question}"

    def note_given(self, question: str) -> None:
        """The person has been told that the answer was taken, and will not give it again."""
        append(self._given, question)

    def was_given(self, question: str) -> bool:
        return question in lines(self._given)


def expected(step: str) -> str:
    return f"{step} is done"


def append(path: Path, line: str) -> None:
    """One line in one write, so that a kill leaves it whole or not at all."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
