"""What we need of a database for the audit trail, and for the seals that show that nobody has changed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cortex_plane.core.audit import AuditEntry, AuditFilter, AuditPage, AuditRecord
from cortex_plane.core.audit_chain import Look, Seal, StoredEntry


class Audit(Protocol):
    async def record(self, entries: Sequence[AuditEntry]) -> None: ...

    async def page(self, wanted: AuditFilter, *, before: int | None = None, limit: int = 50) -> AuditPage:
        """Newest first; `before` is `next_before` of the page before."""

    async def list(self, object_id: str) -> list[AuditRecord]:
        """What was recorded about one object, oldest first."""


class AuditSeals(Protocol):
    async def last(self) -> Seal | None: ...

    async def look(self, after: int) -> Look | None:
        """The newest entry whose number is higher than `after`, and by what to tell that nothing can appear below it."""

    async def entries(self, after: int, through: int, limit: int) -> list[StoredEntry]:
        """Those with a number above `after` and up to `through`, in order."""

    async def add(self, seal: Seal) -> bool:
        """False when another sealer was faster: the seal must follow the last one, so the chain cannot fork."""

    async def list(self, after: int, limit: int) -> list[Seal]:
        """Those with a higher number, in order."""

    async def count_after(self, seq: int) -> int:
        """How many entries have a higher number."""
