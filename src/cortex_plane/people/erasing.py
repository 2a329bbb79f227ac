"""Erases a person's or a tenant's data; the audit log keeps pseudonyms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cortex_plane.audit.model import BEFORE_ALL, ERASABLE, AuditEntry, StoredEntry, erased
from cortex_plane.errors import Conflict, InvalidInput, TenantNotFound
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, JobId, TenantId
from cortex_plane.json import dumps
from cortex_plane.people.users import find_user
from cortex_plane.retention.model import deletable
from cortex_plane.storage import rows
from cortex_plane.storage.rows import NO_DIGITS
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.people.model import UserId
    from cortex_plane.storage.database import Database, Row
    from cortex_plane.stores import Store

BATCH = 200
RENAMED = (
    "erasing/rename_job_created_by",
    "erasing/rename_job_actor",
    "erasing/rename_job_submitters",
    "erasing/rename_job_group_created_by",
    "erasing/rename_job_template_created_by",
    "erasing/rename_job_template_changed_by",
    "erasing/rename_webhook_endpoint_created_by",
    "erasing/rename_retention_rule_created_by",
    "erasing/rename_api_key_created_by",
    "erasing/rename_control_paused_by",
    "erasing/rename_control_updated_by",
    "erasing/rename_execution_grant_created_by",
    "erasing/rename_execution_grant_revoked_by",
    "erasing/rename_execution_request_service_name",
    "erasing/rename_schedule_created_by",
    "erasing/rename_schedule_paused_by",
    "erasing/rename_schedule_changed_by",
    "erasing/rename_schedule_removed_by",
    "erasing/rename_schedule_run_requested_by",
    "erasing/rename_direct_reservation_reserved_by",
    "erasing/rename_history",
)
LEFT = (
    "erasing/leave_channel_mapping",
    "erasing/leave_user_password",
    "erasing/leave_login_session",
    "erasing/leave_user_role",
    "erasing/leave_group_member",
    "erasing/leave_api_key",
    "erasing/leave_approval_token",
)
OF_A_TENANT = (
    "erasing/tenant_charge_receipt",
    "erasing/tenant_execution_request",
    "erasing/tenant_schedule_run",
    "erasing/tenant_schedule",
    "erasing/tenant_execution_grant",
    "erasing/tenant_billing_account",
    "erasing/tenant_job_group",
    "erasing/tenant_job_template",
    "erasing/tenant_webhook_endpoint",
    "erasing/tenant_cost_total",
    "erasing/tenant_job_key",
    "erasing/tenant_fair_turn",
    "erasing/tenant_session",
    "erasing/tenant_user_group",
    "erasing/tenant_user_role",
    "erasing/tenant_api_key",
    "erasing/tenant_http_request",
    "erasing/tenant_retention_rule",
    "erasing/tenant_control",
)
BEGINS_JOBS = (
    "erasing/tenant_api_key",
    "erasing/tenant_user_role",
    "erasing/tenant_webhook_endpoint",
    "erasing/tenant_schedule_run",
    "erasing/tenant_schedule",
)


class ErasureStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def person(self, user_id: UserId, name: str, pseudonym: str, entry: AuditEntry) -> None:
        """Everything but their jobs and the audit log."""
        await self._database.transact(lambda: _person(user_id, name, pseudonym, entry))

    async def jobs_of_person(self, user_id: UserId, name: str) -> int:
        """Deletes those that have ended and are not needed; returns how many."""
        deleted, after = 0, NO_DIGITS
        while found := await self._database.read(
            "erasing/ended_jobs_of_person", id=user_id, after=after, limit=BATCH, **_names(name)
        ):
            ids, after = [str(row["id"]) for row in found], str(found[-1]["id"])
            deleted += await self._delete(ids)
        return deleted

    async def audit_of_person(self, user_id: UserId, name: str, pseudonym: str) -> int:
        """How many entries lost words."""
        word = name.replace("!", "!!").replace("%", "!%").replace("_", "!_")
        mention = {"in_details": f'%"%{word}"%', "in_words": f"%{word}%"}

        def words(entry: StoredEntry) -> Sequence[str]:
            return ERASABLE if entry.actor in _names(name).values() else ("reason", "details")

        return await self._audit("erasing/audit_of_person", words, pseudonym, id=user_id, **mention, **_names(name))

    async def tenant(self, tenant_id: TenantId, pseudonym: str, entry: AuditEntry) -> None:
        """Everything but its jobs and the audit log."""
        await self._database.transact(lambda: _tenant(tenant_id, pseudonym, entry))

    async def stop_tenant(self, tenant_id: TenantId) -> None:
        """Removes what could begin new jobs: keys, roles, webhooks, schedules."""
        await self._database.transact(lambda: _stop_tenant(tenant_id))

    async def open_jobs_of_tenant(self, tenant_id: TenantId) -> list[JobId]:
        found = await self._jobs_of_tenant(tenant_id)
        return [JobId(str(row["id"])) for row in found if not row["has_ended"]]

    async def jobs_of_tenant(self, tenant_id: TenantId) -> int:
        """Deletes those that have ended; returns how many."""
        ids = [str(row["id"]) for row in await self._jobs_of_tenant(tenant_id) if row["has_ended"]]
        return sum([await self._delete(ids[begin : begin + BATCH], needed_too=True) for begin in range(0, len(ids), BATCH)])

    async def audit_of_tenant(self, tenant_id: TenantId, pseudonym: str) -> int:
        return await self._audit("erasing/audit_of_tenant", lambda _: ERASABLE, pseudonym, id=tenant_id)

    async def _jobs_of_tenant(self, tenant_id: TenantId) -> list[Row]:
        whole: list[Row] = []
        after = NO_DIGITS
        while found := await self._database.read("erasing/jobs_of_tenant", id=tenant_id, after=after, limit=BATCH):
            whole, after = [*whole, *found], str(found[-1]["id"])
        return whole

    async def _delete(self, ids: Sequence[str], *, needed_too: bool = False) -> int:
        return await self._database.transact(lambda: _delete(ids, self._database, needed_too=needed_too))

    async def _audit(self, statement: str, words: Any, pseudonym: str, **about: Any) -> int:
        changed, after = 0, BEFORE_ALL
        while found := await self._database.read(statement, after=after, limit=BATCH, **about):
            entries = [rows.stored_entry(row) for row in found]
            await self._database.transact(lambda entries=entries: _audit(entries, words, pseudonym))  # type: ignore[misc]
            changed, after = changed + len(entries), entries[-1].seq
        return changed


def _names(name: str) -> dict[str, str]:
    return {"as_user": f"user:{name}", "as_login": f"cli:{name}", "as_name": name}


def _person(user_id: UserId, name: str, pseudonym: str, entry: AuditEntry) -> Transaction[None]:
    for statement in RENAMED:
        yield from query(statement, pseudonym=f"user:{pseudonym}", **_names(name))
    for statement in LEFT:
        yield from query(statement, id=user_id)
    yield from query("erasing/requests_of", **_names(name))
    yield from query("erasing/account", id=user_id, name=pseudonym)
    yield from query("audit/record", entries=dumps([entry.to_json()]))


def _stop_tenant(tenant_id: TenantId) -> Transaction[None]:
    for statement in BEGINS_JOBS:
        yield from query(statement, id=tenant_id)


def _tenant(tenant_id: TenantId, pseudonym: str, entry: AuditEntry) -> Transaction[None]:
    for statement in OF_A_TENANT:
        yield from query(statement, id=tenant_id)
    yield from query("erasing/tenant", id=tenant_id, name=pseudonym)
    yield from query("audit/record", entries=dumps([entry.to_json()]))


def _delete(ids: Sequence[str], database: Database, *, needed_too: bool) -> Transaction[int]:
    if not needed_too:
        held = yield from query("retention/held_back", job_ids=database.array(ids))
        ids = list(deletable([rows.held_back(row) for row in held]))
    if not ids:
        return 0
    return len((yield from query("retention/delete", job_ids=database.array(ids))))


def _audit(entries: Sequence[StoredEntry], words: Any, pseudonym: str) -> Transaction[None]:
    for entry in entries:
        gone = words(entry)
        less = erased(entry, gone, f"user:{pseudonym}")
        yield from query(
            "erasing/audit_entry",
            seq=entry.seq,
            actor=less.actor,
            drop_reason="reason" in gone,
            drop_source="source" in gone,
            drop_details="details" in gone,
            kept=less.kept,
        )


# -- erase data --------------------------------------------------------------------------------
# Erases what is stored about a person, or for a tenant, on request.
#
# The audit log stays, with pseudonyms for names and digests for words; `cortex audit verify` holds before and after.


PSEUDONYM = "erased-"
ROUNDS = 3
"""The end of a job may begin another one."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What is left is called `pseudonym`; `jobs` were deleted, and words were taken out of so many `audit_entries`."""

    pseudonym: str
    jobs: int
    audit_entries: int


async def erase_person(store: Store, name: str, *, actor: str | None = None, reason: str | None = None) -> Erased:
    """Their account, addresses, keys, roles and sessions, the ended jobs that they submitted, and their name everywhere else.
    Jobs of theirs that have not ended stay, under the pseudonym: erase again when they have. Safe to repeat."""
    user = await find_user(store, name)
    pseudonym = user.name if user.name.startswith(PSEUDONYM) else PSEUDONYM + user.id[-12:]
    jobs = await store.erasing.jobs_of_person(user.id, user.name)
    entry = AuditEntry("USER_ERASED", "user_account", user.id, _without(actor, name, pseudonym), reason)
    await store.erasing.person(user.id, user.name, pseudonym, entry)
    return Erased(pseudonym, jobs, await store.erasing.audit_of_person(user.id, user.name, pseudonym))


async def erase_tenant(store: Store, name: str, *, actor: str | None = None, reason: str | None = None) -> Erased:
    """All its jobs, schedules, grants, keys, webhooks and roles. Open jobs are cancelled first, without cleaning up."""
    tenant_id = await store.tenants.find(name)
    if tenant_id is None:
        raise TenantNotFound(name)
    if tenant_id == DEFAULT_TENANT_ID:
        raise InvalidInput("The default tenant cannot be erased: it belongs to the installation.", field="name")
    await store.erasing.stop_tenant(tenant_id)
    for _ in range(ROUNDS):
        for job_id in await store.erasing.open_jobs_of_tenant(tenant_id):
            await store.jobs.cancel(job_id, actor, "its tenant is erased", kill=True)
    if await store.erasing.open_jobs_of_tenant(tenant_id):
        raise Conflict(f'Tenant "{name}" was given new jobs meanwhile. Erase it again.')
    jobs = await store.erasing.jobs_of_tenant(tenant_id)
    pseudonym = PSEUDONYM + tenant_id[-12:]
    entry = AuditEntry("TENANT_ERASED", "tenant", tenant_id, actor, reason)
    await store.erasing.tenant(tenant_id, pseudonym, entry)
    return Erased(pseudonym, jobs, await store.erasing.audit_of_tenant(tenant_id, pseudonym))


def _without(actor: str | None, name: str, pseudonym: str) -> str | None:
    return f"user:{pseudonym}" if actor in (name, f"user:{name}", f"cli:{name}") else actor
