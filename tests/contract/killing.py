"""A process that dies between two statements, without a process: at the chosen one, whoever asked for it is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Killed(Exception):
    """The process is gone: nothing after this is done, and what was not committed is not there."""


class Killer:
    """Counts the statements of a store, and their commits; at the one that was chosen, whoever asked for it dies."""

    def __init__(self, database: Any) -> None:
        self._left = 0
        self.struck = self.watching = False
        for name in ("read", "write", "write_small", "write_batch", "write_once"):
            setattr(database, name, self._watched(getattr(database, name)))
        transact = database.transact
        database.transact = self._watched(lambda begin, connection=None: transact(self._script(begin), connection))

    def strike_at(self, statement: int) -> None:
        self._left, self.struck = statement, False

    def _count(self) -> None:
        if self._left and self.watching:
            self._left -= 1
            if not self._left:
                self.struck = True
                raise Killed

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(*arguments: Any, **values: Any) -> Any:
            self._count()
            answer = await call(*arguments, **values)
            self._count()  # It is committed, and nobody hears of it.
            return answer

        return watched

    def _script(self, begin: Callable[[], Any]) -> Callable[[], Any]:
        def counted() -> Any:
            script = begin()
            try:
                asked = next(script)
                while True:
                    rows = yield asked
                    self._count()
                    asked = script.send(rows)
            except StopIteration as end:
                return end.value

        return counted
