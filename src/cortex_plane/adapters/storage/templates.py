"""Templates: saved, changed and removed together with their audit entry."""

from __future__ import annotations

from collections.abc import Sequence

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.retry import RetryPolicy
from cortex_plane.core.templates import NewTemplate, Template, TemplateId
from cortex_plane.ports.json_text import dumps, loads


class SqlTemplates:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, template: NewTemplate, actor: str | None) -> Template:
        return await self._database.transact(lambda: _put(template, actor))

    async def get(self, tenant_id: TenantId, name: str) -> Template | None:
        found = await self._database.read("templates/get", tenant_id=tenant_id, name=name)
        return _template(found[0]) if found else None

    async def list(self, tenant_id: TenantId) -> list[Template]:
        return [_template(row) for row in await self._database.read("templates/list", tenant_id=tenant_id)]

    async def remove(self, tenant_id: TenantId, name: str, actor: str | None) -> bool:
        return await self._database.transact(lambda: _remove(tenant_id, name, actor))


def _put(template: NewTemplate, actor: str | None) -> Script[Template]:
    saved = yield from ask(
        "templates/put",
        id=template.id,
        tenant_id=template.tenant_id,
        name=template.name,
        job_type=template.job_type,
        params=template.params,
        queue=template.queue,
        priority=template.priority,
        max_retries=template.max_retries,
        retry_policy=dumps(template.retry_policy.to_json()) if template.retry_policy else None,
        timeout_seconds=template.timeout_seconds,
        tags=dumps(list(template.tags)),
        created_by=template.created_by,
    )
    yield from _record("TEMPLATE_SAVED", template.tenant_id, template.name, actor, saved)
    [row] = yield from ask("templates/get", tenant_id=template.tenant_id, name=template.name)
    return _template(row)


def _remove(tenant_id: TenantId, name: str, actor: str | None) -> Script[bool]:
    removed = yield from ask("templates/remove", tenant_id=tenant_id, name=name)
    yield from _record("TEMPLATE_REMOVED", tenant_id, name, actor, removed)
    return bool(removed)


def _record(action: str, tenant_id: TenantId, name: str, actor: str | None, changed: Sequence[Row]) -> Script[None]:
    """What changed nothing leaves no entry."""
    for row in changed:
        details = {"name": name, "version": row["version"]}
        entry = AuditEntry(action, "template", str(row["id"]), actor=actor, tenant_id=tenant_id, details=details)
        yield from ask("audit/record", entries=dumps([entry.to_json()]))


def _template(row: Row) -> Template:
    policy = row["retry_policy"]
    return Template(
        id=TemplateId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        name=row["name"],
        job_type=row["job_type"],
        params=loads(row["params"]),
        queue=row["queue"],
        priority=row["priority"],
        max_retries=row["max_retries"],
        retry_policy=None if policy is None else RetryPolicy.from_json(loads(policy)),
        timeout_seconds=row["timeout_seconds"],
        tags=loads(row["tags"]),
        version=row["version"],
        created_by=row["created_by"],
        created_at=rows.moment(row["created_at"]),
        updated_at=rows.moment(row["updated_at"]),
    )
