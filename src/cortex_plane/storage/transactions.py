"""Several statements in one transaction, written once for both stores.

A script is a generator: it yields what it asks, and is sent the rows. SQLite runs it inside its writer thread, PostgreSQL on
one connection; neither knows what the script is about. What a script raises undoes everything that it asked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from cortex_plane.storage.database import Row


class Ask(NamedTuple):
    name: str
    values: dict[str, Any]


Result = TypeVar("Result")
Transaction = Generator[Ask, Sequence[Row], Result]
Begin = Callable[[], Transaction[Result]]


def query(name: str, /, **values: Any) -> Generator[Ask, Sequence[Row], Sequence[Row]]:
    """`rows = yield from ask("jobs/get", id=job_id)`."""
    return (yield Ask(name, values))


def run(begin: Begin[Result], execute: Callable[[Ask], Sequence[Row]]) -> Result:
    """From its first statement to its result, where statements are answered without waiting."""
    script = begin()
    try:
        asked = next(script)
        while True:
            asked = script.send(execute(asked))
    except StopIteration as end:
        result: Result = end.value
        return result
