"""Approval requests: opened with a waiting job, put to people, decided once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage import approval_rows
from cortex_plane.adapters.storage.database import Database, Row
from cortex_plane.adapters.storage.deciding import Ballot, decide, expire
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.approvals import (
    ApprovalId,
    ApprovalRequest,
    Approvers,
    NewApproval,
    Notification,
    Purpose,
    Verdict,
    Vote,
)
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.decisions import Answer
from cortex_plane.core.jobs import JobId, RunId, TenantId
from cortex_plane.core.outcomes import Transition
from cortex_plane.core.people import UserId
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.json_text import dumps, loads

NO_DIGITS = "00000000-0000-0000-0000-000000000000"
NEWER_THAN_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class SqlApprovals:
    def __init__(self, database: Database, new_id: NewId) -> None:
        self._database, self._new_id = database, new_id

    async def open(self, transition: Transition, request: NewApproval, actor: str) -> bool:
        if await self._database.transact(lambda: _open(transition, request, actor)):
            return True
        return bool(await self._get([request.id]))  # The answer to the first time was lost.

    async def decide(
        self,
        request_id: ApprovalId,
        voter: UserId,
        decision: Verdict,
        *,
        reason: str | None = None,
        edits: Any = None,
        door: str,
        token_hash: str | None = None,
    ) -> Answer:
        ballot = Ballot(request_id, voter, decision, reason, edits, door, RunId(self._new_id()), token_hash)
        return await self._database.transact(lambda: decide(ballot, self._database.array))

    async def expire(self, limit: int) -> int:
        """One transaction each: with several jobs in one, their locks could be waited for in a circle."""
        ended = 0
        for row in await self._database.read("approvals/expired", limit=limit):
            ended += await self._expire(ApprovalId(str(row["id"])))
        return ended

    async def _expire(self, request_id: ApprovalId) -> bool:
        run_id = RunId(self._new_id())
        return await self._database.transact(lambda: expire(request_id, run_id, self._database.array))

    async def due(self, limit: int) -> list[tuple[ApprovalId, Purpose]]:
        found = await self._database.read("approvals/due", limit=limit)
        return [(ApprovalId(str(row["id"])), row["purpose"]) for row in found]

    async def remind(self, request_id: ApprovalId, entry: AuditEntry | None = None) -> bool:
        return await self._database.transact(lambda: _remind(request_id, entry))

    async def escalate(self, request_id: ApprovalId) -> bool:
        return await self._database.transact(lambda: _escalate(request_id))

    async def next_due_in(self) -> float | None:
        [row] = await self._database.read("approvals/next_due")
        return None if row["seconds"] is None else float(row["seconds"])

    async def get(self, request_id: ApprovalId) -> ApprovalRequest | None:
        found = await self._get([request_id])
        return found[0] if found else None

    async def find(self, prefix: str) -> list[ApprovalId]:
        low, high = prefix + NO_DIGITS[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        return [ApprovalId(str(row["id"])) for row in await self._database.read("approvals/find", low=low, high=high)]

    async def put_token(
        self, request_id: ApprovalId, user_id: UserId, channel_type: str, channel_user_id: str, token_hash: str
    ) -> bool:
        return bool(
            await self._database.write(
                "approvals/put_token",
                request_id=request_id,
                user_id=user_id,
                channel_type=channel_type,
                channel_user_id=channel_user_id,
                token_hash=token_hash,
            )
        )

    async def by_token(self, token_hash: str) -> tuple[ApprovalId, UserId] | None:
        for row in await self._database.read("approvals/by_token", token_hash=token_hash):
            return ApprovalId(str(row["approval_request_id"])), UserId(str(row["user_account_id"]))
        return None

    async def record_notification(self, request_id: ApprovalId, notification: Notification) -> bool:
        return await self._database.transact(lambda: _record_notification(request_id, notification))

    async def votes(self, request_id: ApprovalId) -> Sequence[Vote]:
        return [approval_rows.vote(row) for row in await self._database.read("approvals/votes", id=request_id)]

    async def _get(self, request_ids: Sequence[ApprovalId]) -> list[ApprovalRequest]:
        if not request_ids:
            return []
        found = await self._database.read("approvals/get", ids=self._database.array(request_ids))
        return [approval_rows.approval_request(row) for row in found]

    async def list(
        self,
        *,
        waiting_for: UserId | None = None,
        tenant_id: TenantId | None = None,
        job_id: JobId | None = None,
        open_only: bool = True,
        before: ApprovalId | None = None,
        limit: int = 50,
    ) -> list[ApprovalRequest]:
        page = {"before": before or NEWER_THAN_ALL, "limit": limit}
        if waiting_for is not None:
            found = await self._database.read("approvals/list_for_user", user_id=waiting_for, tenant_id=tenant_id, **page)
        elif job_id is not None:
            found = await self._database.read("approvals/list_of_job", job_id=job_id, open_only=open_only, **page)
        elif open_only:
            found = await self._database.read("approvals/list_open", tenant_id=tenant_id, **page)
        elif tenant_id is not None:
            found = await self._database.read("approvals/list_of_tenant", tenant_id=tenant_id, **page)
        else:
            found = await self._database.read("approvals/list", **page)
        return await self._get([ApprovalId(str(row["id"])) for row in found])


def _open(transition: Transition, request: NewApproval, actor: str) -> Script[bool]:
    waiting = yield from ask(
        "approvals/open_job",
        job_id=transition.job_id,
        run_id=transition.run_id,
        token_hash=request.token_hash,
        ttl_seconds=request.ttl_seconds,
        remind_after_seconds=request.remind_after_seconds,
        escalate_after_seconds=request.escalate_after_seconds,
        cost_cents=transition.cost_cents,
        checkpoint=transition.checkpoint,
        checkpoint_id=transition.checkpoint_id,
        cause=transition.cause,
        actor=actor,
        note=dumps({**(transition.note or {}), "approval_request_id": request.id}),
    )
    if not waiting:
        return False
    [job] = waiting
    approvers = request.approvers or (yield from _approvers_by_session(request, job))
    only_one = len(approvers.users) == 1 and not approvers.groups
    yield from ask(
        "approvals/add",
        **approval_rows.new_values(request),
        approver_id=approvers.users[0] if only_one else None,
        designated=bool(approvers),
        approvers=dumps(approvers.to_json()),
        remind_at=job["remind_at"],
        escalate_at=job["escalate_at"],
        expires_at=job["expires_at"],
        created_at=job["created_at"],
    )
    yield from _put_to(request.id, approvers, escalated=False)
    yield from ask("approvals/tell", request_id=request.id, purpose="ask")
    details = {"job_id": request.job_id, "gate": request.gate_key, "summary": request.action_summary, "digest": request.digest}
    yield from _record(AuditEntry("APPROVAL_REQUESTED", "approval", request.id, actor, None, None, request.tenant_id, details))
    return True


def _approvers_by_session(request: NewApproval, job: Row) -> Script[Approvers]:
    """The user of the session that the job came out of, unless they must not decide about their own, or not alone."""
    if job["session_id"] is None or request.no_self_approval or request.quorum > 1:
        return Approvers()
    found = yield from ask("people/get_session", id=str(job["session_id"]))
    return Approvers(tuple(UserId(str(row["user_account_id"])) for row in found))


def _put_to(request_id: ApprovalId, approvers: Approvers, escalated: bool) -> Script[None]:
    for user_id in dict.fromkeys(approvers.users):
        yield from ask("approvals/ask_user", request_id=request_id, user_id=user_id, escalated=escalated)
    for group_id in dict.fromkeys(approvers.groups):
        yield from ask("approvals/ask_group", request_id=request_id, group_id=group_id, escalated=escalated)


def _remind(request_id: ApprovalId, entry: AuditEntry | None) -> Script[bool]:
    if not (yield from ask("approvals/remind", id=request_id, asked_for=entry is not None)):
        return False
    yield from ask("approvals/tell", request_id=request_id, purpose="remind")
    if entry is not None:
        yield from _record(entry)
    return True


def _escalate(request_id: ApprovalId) -> Script[bool]:
    for row in (yield from ask("approvals/escalate", id=request_id)):
        escalate_to = Approvers.from_json(loads(row["escalate_to"]))
        yield from _put_to(request_id, escalate_to, escalated=True)
        yield from ask("approvals/tell", request_id=request_id, purpose="escalate")
        details = {"job_id": str(row["job_id"]), "escalate_to": escalate_to.to_json()}
        tenant_id = str(row["tenant_id"])
        yield from _record(AuditEntry("APPROVAL_ESCALATED", "approval", request_id, tenant_id=tenant_id, details=details))
        return True
    return False


def _record_notification(request_id: ApprovalId, sent: Notification) -> Script[bool]:
    yield from ask("approvals/lock", id=request_id)
    for row in (yield from ask("approvals/notifications", id=request_id)):
        kept = [one for one in loads(row["notification_channels"]) if not _is_replaced(one, sent)]
        kept.append(approval_rows.stored_notification(sent, row["at"]))
        yield from ask("approvals/put_notifications", id=request_id, channels=dumps(kept))
        return bool(row["is_open"])
    return False


def _is_replaced(kept: dict[str, Any], by: Notification) -> bool:
    """The same message, or a failure of that address: what came of the next try takes its place."""
    address = (kept["user_account_id"], kept["channel_type"], kept["channel_user_id"])
    if address != (by.user_account_id, by.channel_type, by.channel_user_id):
        return False
    return "error" in kept or (by.error is None and kept["message_id"] == by.message_id)


def _record(entry: AuditEntry) -> Script[None]:
    yield from ask("audit/record", entries=dumps([entry.to_json()]))
