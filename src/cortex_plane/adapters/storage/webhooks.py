"""Webhook endpoints. Each change is one transaction, with its audit entry; the events themselves are written by a trigger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import JobId, TenantId
from cortex_plane.core.webhooks import DeadLetter, DeadLetterPage, Endpoint, EndpointId, NewEndpoint, Target
from cortex_plane.ports.json_text import dumps, loads

NEWER_THAN_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff"
BATCH = 500
LOOKED_THROUGH = 2_000
"""So many jobs that ended badly are looked at for one page at most: no index tells which of them were deliveries."""


class SqlWebhooks:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, endpoint: NewEndpoint, entry: AuditEntry) -> None:
        await self._database.transact(lambda: _add(endpoint, entry))

    async def target(self, endpoint_id: EndpointId) -> Target | None:
        for row in await self._database.read("webhooks/target", id=endpoint_id):
            enabled, allow_private = bool(row["enabled"]), bool(row["allow_private"])
            return Target(TenantId(str(row["tenant_id"])), row["url"], row["secret"], enabled, allow_private)
        return None

    async def remove(self, endpoint_id: EndpointId, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _change("webhooks/remove", entry, id=endpoint_id))

    async def enable(self, endpoint_id: EndpointId, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _change("webhooks/enable", entry, id=endpoint_id))

    async def disable(self, endpoint_id: EndpointId, reason: str | None, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _change("webhooks/disable", entry, id=endpoint_id, reason=reason))

    async def dead_letters(
        self, tenant_id: TenantId | None = None, *, before: JobId | None = None, limit: int = 50
    ) -> DeadLetterPage:
        letters: list[DeadLetter] = []
        last = before or JobId(NEWER_THAN_ALL)
        for _ in range(LOOKED_THROUGH // BATCH):
            ended = await self._database.read("search/unsuccessful", before=last, limit=BATCH)
            ids = [JobId(str(row["id"])) for row in ended]
            letters += await self._dead(ids, tenant_id, limit - len(letters))
            if len(letters) == limit:
                return DeadLetterPage(letters, letters[-1].job_id)
            if len(ids) < BATCH:
                return DeadLetterPage(letters, None)
            last = ids[-1]
        return DeadLetterPage(letters, last)

    async def _dead(self, ids: Sequence[JobId], tenant_id: TenantId | None, limit: int) -> list[DeadLetter]:
        found = await self._database.read("webhooks/dead", ids=self._database.array(ids), tenant_id=tenant_id, limit=limit)
        return [_dead_letter(row) for row in found]

    async def list(self, tenant_id: TenantId | None = None) -> list[Endpoint]:
        return [_endpoint(row) for row in await self._database.read("webhooks/list", tenant_id=tenant_id)]


def _add(endpoint: NewEndpoint, entry: AuditEntry) -> Script[None]:
    if (yield from ask("webhooks/reissue", id=endpoint.id, secret=endpoint.secret)):
        return
    yield from ask(
        "webhooks/add",
        id=endpoint.id,
        tenant_id=endpoint.tenant_id,
        url=endpoint.url,
        secret=endpoint.secret,
        events=dumps(endpoint.events),
        description=endpoint.description,
        allow_private=endpoint.allow_private,
        created_by=endpoint.created_by,
    )
    yield from ask("audit/record", entries=dumps([entry.to_json()]))


def _change(statement: str, entry: AuditEntry, **values: Any) -> Script[bool]:
    """What changed nothing is not recorded."""
    if not (yield from ask(statement, **values)):
        return False
    yield from ask("audit/record", entries=dumps([entry.to_json()]))
    return True


def _endpoint(row: Row) -> Endpoint:
    return Endpoint(
        id=EndpointId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        tenant=row["tenant"],
        url=row["url"],
        events=loads(row["events"]),
        enabled=bool(row["enabled"]),
        description=row["description"],
        allow_private=bool(row["allow_private"]),
        created_by=row["created_by"],
        created_at=rows.moment(row["created_at"]),
        disabled_at=rows.moment_or_none(row["disabled_at"]),
        disabled_reason=row["disabled_reason"],
    )


def _dead_letter(row: Row) -> DeadLetter:
    return DeadLetter(
        job_id=JobId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        endpoint_id=EndpointId(row["endpoint_id"]),
        url=row["url"],
        event_id=row["event_id"],
        event_type=row["event_type"],
        attempts=row["attempt"],
        error_message=row["error_message"],
        failed_at=rows.moment(row["finished_at"]),
    )
