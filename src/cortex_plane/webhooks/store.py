"""Stores endpoints, deliveries and dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.json import dumps, loads
from cortex_plane.storage import rows
from cortex_plane.storage.transactions import Transaction, query
from cortex_plane.webhooks.model import DeadLetter, DeadLetterPage, Endpoint, EndpointId, NewEndpoint, Target

if TYPE_CHECKING:
    from cortex_plane.audit.model import AuditEntry
    from cortex_plane.storage.database import Database, Row

NEWER_THAN_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff"
REDELIVERER = "redelivery"
"""Who, in the history, tries again what failed."""
BATCH = 500
LOOKED_THROUGH = 2_000
"""So many jobs that ended badly are looked at for one page at most: no index tells which of them were deliveries."""


class WebhookStore:
    """Endpoints. What they are told is written by the database, in the transaction that ends a job."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, endpoint: NewEndpoint, entry: AuditEntry) -> None:
        """The same id a second time is the same endpoint with a new secret: nobody has been shown the first."""
        await self._database.transact(lambda: _add(endpoint, entry))

    async def target(self, endpoint_id: EndpointId) -> Target | None:
        """Where and how to deliver; the only way to an endpoint's secret."""
        for row in await self._database.read("webhooks/target", id=endpoint_id):
            enabled, allow_private = bool(row["enabled"]), bool(row["allow_private"])
            return Target(TenantId(str(row["tenant_id"])), row["url"], row["secret"], enabled, allow_private)
        return None

    async def remove(self, endpoint_id: EndpointId, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _change("webhooks/remove", entry, id=endpoint_id))

    async def enable(self, endpoint_id: EndpointId, entry: AuditEntry) -> bool:
        """False when that changed nothing; then nothing is recorded."""
        return await self._database.transact(lambda: _change("webhooks/enable", entry, id=endpoint_id))

    async def disable(self, endpoint_id: EndpointId, reason: str | None, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _change("webhooks/disable", entry, id=endpoint_id, reason=reason))

    async def dead_letters(
        self, tenant_id: TenantId | None = None, *, before: JobId | None = None, limit: int = 50
    ) -> DeadLetterPage:
        """Deliveries that failed for good and were not sent again, newest first."""
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

    async def tell_once(self, endpoint_id: EndpointId, subject: str, event_id: str, seconds: float) -> bool:
        """Whether this event is to be told: False when another one with this subject was, less than so many seconds ago."""
        told = await self._database.write(
            "webhooks/tell_once", endpoint_id=endpoint_id, subject=subject, event_id=event_id, seconds=seconds
        )
        return bool(told)

    async def failed_deliveries(self, limit: int) -> Sequence[JobId]:
        """Webhooks and notifications that failed and are to be tried again now; see `webhooks/delivery.py`."""
        await self._database.write("deliveries/give_up")
        await self._database.write("deliveries/postpone")
        return [JobId(str(row["job_id"])) for row in await self._database.write("deliveries/due", limit=limit)]

    async def redeliver(self, job_id: JobId, new_id: JobId) -> bool:
        """Submits a failed delivery again, as a linked job. False when another has done so. Raises Contended."""
        return await self._database.transact(lambda: _redeliver(job_id, new_id), divisible=True)

    async def list(self, tenant_id: TenantId | None = None) -> list[Endpoint]:
        return [_endpoint(row) for row in await self._database.read("webhooks/list", tenant_id=tenant_id)]


def _redeliver(job_id: JobId, new_id: JobId) -> Transaction[bool]:
    """A person may have retried it meanwhile: then it is only taken off the list."""
    if not (yield from query("deliveries/take", job_id=job_id)):
        return False
    fields = {"actor": REDELIVERER, "created_by": None, "parent_id": None, "checkpoint_id": None, "checkpoint": None}
    return bool((yield from query("jobs/add_successor", kind="retry", job_id=job_id, new_id=new_id, **fields)))


def _add(endpoint: NewEndpoint, entry: AuditEntry) -> Transaction[None]:
    if (yield from query("webhooks/reissue", id=endpoint.id, secret=endpoint.secret)):
        return
    yield from query(
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
    yield from query("audit/record", entries=dumps([entry.to_json()]))


def _change(statement: str, entry: AuditEntry, **values: Any) -> Transaction[bool]:
    """What changed nothing is not recorded."""
    if not (yield from query(statement, **values)):
        return False
    yield from query("audit/record", entries=dumps([entry.to_json()]))
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
