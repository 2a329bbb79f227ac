"""Lists what was recorded, newest first, a page at a time."""

from __future__ import annotations

from datetime import UTC, datetime

from cortex_plane.core.audit import AuditFilter, AuditRecord
from cortex_plane.core.errors import InvalidInput
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.store import Store

LONGEST_PAGE = 10_000


async def list_audit(
    store: Store,
    *,
    actor: str | None = None,
    action: str | None = None,
    object_id: str | None = None,
    tenant: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[AuditRecord]:
    """`before` is the number of the last entry of the page before."""
    for name, number, most in (("limit", limit, LONGEST_PAGE), ("before", before, 2**63 - 1)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most):
            raise InvalidInput(f"{name} must be a whole number from 1 to {most:,}, not {number!r}.", field=name)
    wanted = AuditFilter(
        actor=actor,
        action=action,
        object_id=object_id,
        tenant_id=None if tenant is None else await Directory(store).tenant(tenant),
        since=_moment(since, "since"),
        until=_moment(until, "until"),
    )
    return await store.audit.page(wanted, before=before, limit=limit)


def _moment(moment: datetime | None, name: str) -> datetime | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{name} must be a datetime, not {moment!r:.60}.", field=name)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
