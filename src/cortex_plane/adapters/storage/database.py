"""What the two databases have in common: named statements go in, rows come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from cortex_plane.adapters.storage.scripts import Begin

Row = Mapping[str, Any]
Result = TypeVar("Result")


class Database(Protocol):
    async def read(self, name: str, /, **values: Any) -> Sequence[Row]: ...

    async def write(self, name: str, /, **values: Any) -> Sequence[Row]:
        """One transaction. Repeated when the connection breaks, so the statement must bear that."""

    async def write_small(self, name: str, /, **values: Any) -> Sequence[Row]:
        """The same for a statement of which a single caller waits for the answer, as fast as it can be had."""

    async def write_once(self, name: str, /, **values: Any) -> Sequence[Row]:
        """One transaction, never repeated: when the connection breaks, Unavailable says that the outcome is unknown."""

    def write_from_thread(self, name: str, timeout_seconds: float, /, **values: Any) -> Sequence[Row]:
        """The same for a thread that must not depend on any event loop."""

    async def transact(self, begin: Begin[Result], connection: Any = None) -> Result:
        """Runs a script in one transaction, or in the one that the caller's own connection has open.
        Begun anew when it gave way to another; not when the connection breaks."""

    async def join(self, connection: Any, name: str, /, **values: Any) -> None:
        """Runs the statement in the transaction that the caller's own connection has open."""

    def array(self, values: Iterable[str]) -> Any:
        """A list of texts in the form in which this database takes one."""
