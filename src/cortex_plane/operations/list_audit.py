"""Lists what was recorded, newest first, a page at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypedDict, Unpack

from cortex_plane.core.audit import AuditFilter, AuditPage, AuditRecord
from cortex_plane.core.errors import InvalidInput
from cortex_plane.operations.directory import Directory
from cortex_plane.ports.store import Store

LONGEST_PAGE = 10_000


class AuditWish(TypedDict, total=False):
    actor: str | None
    action: str | None
    object_id: str | None
    tenant: str | None
    since: datetime | None
    until: datetime | None


async def page_audit(
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
) -> AuditPage:
    """`before` is where the page before says that the next one begins."""
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


async def list_audit(
    store: Store, *, before: int | None = None, limit: int = 50, **wanted: Unpack[AuditWish]
) -> list[AuditRecord]:
    """However long it takes to find so many. `before` is the number of the last entry that is known already."""
    page = await page_audit(store, before=before, limit=limit, **wanted)
    found = page.records
    while page.next_before is not None and len(found) < limit:
        page = await page_audit(store, before=page.next_before, limit=limit - len(found), **wanted)
        found += page.records
    return found


def _moment(moment: datetime | None, name: str) -> datetime | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{name} must be a datetime, not {moment!r:.60}.", field=name)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
