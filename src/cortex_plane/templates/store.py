"""Stores templates. Each change is written in one transaction with its audit entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cortex_plane.audit.model import AuditEntry
from cortex_plane.jobs.fields import template_fields
from cortex_plane.jobs.model import TenantId
from cortex_plane.json import dumps, loads
from cortex_plane.storage import rows
from cortex_plane.storage.transactions import Transaction, query
from cortex_plane.templates.model import NewTemplate, Template, TemplateId

if TYPE_CHECKING:
    from cortex_plane.storage.database import Database, Row


class TemplateStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, template: NewTemplate, actor: str | None) -> Template:
        """Saves it under its tenant and name; a change counts the version up, and what changes nothing does not."""
        return await self._database.transact(lambda: _put(template, actor))

    async def get(self, tenant_id: TenantId, name: str) -> Template | None:
        found = await self._database.read("templates/get", tenant_id=tenant_id, name=name)
        return _template(found[0]) if found else None

    async def list(self, tenant_id: TenantId) -> list[Template]:
        return [_template(row) for row in await self._database.read("templates/list", tenant_id=tenant_id)]

    async def remove(self, tenant_id: TenantId, name: str, actor: str | None) -> bool:
        return await self._database.transact(lambda: _remove(tenant_id, name, actor))


def _put(template: NewTemplate, actor: str | None) -> Transaction[Template]:
    saved = yield from query("templates/put", **vars(template))
    yield from _record("TEMPLATE_SAVED", template.tenant_id, template.name, actor, saved)
    [row] = yield from query("templates/get", tenant_id=template.tenant_id, name=template.name)
    return _template(row)


def _remove(tenant_id: TenantId, name: str, actor: str | None) -> Transaction[bool]:
    removed = yield from query("templates/remove", tenant_id=tenant_id, name=name)
    yield from _record("TEMPLATE_REMOVED", tenant_id, name, actor, removed)
    return bool(removed)


def _record(action: str, tenant_id: TenantId, name: str, actor: str | None, changed: Sequence[Row]) -> Transaction[None]:
    """What changed nothing leaves no entry."""
    for row in changed:
        details = {"name": name, "version": row["version"]}
        entry = AuditEntry(action, "template", str(row["id"]), actor=actor, tenant_id=tenant_id, details=details)
        yield from query("audit/record", entries=dumps([entry.to_json()]))


def _template(row: Row) -> Template:
    return Template(
        id=TemplateId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        name=row["name"],
        job_type=row["job_type"],
        **template_fields(loads(row["options"])),
        params=loads(row["params"]),
        version=row["version"],
        created_by=row["created_by"],
        changed_by=row["changed_by"],
        created_at=rows.moment(row["created_at"]),
        updated_at=rows.moment(row["updated_at"]),
    )
