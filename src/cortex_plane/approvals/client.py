"""Approvals through a server. Decisions are made by the owner of the API key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from cortex_plane.approvals.decisions import AlreadyDecided, Answer, Decided, Expired, NotAllowed, Recorded, Unknown, Withdrawn
from cortex_plane.approvals.model import (
    NOBODY,
    ApprovalId,
    ApprovalNotFound,
    ApprovalOutcome,
    ApprovalRequest,
    Approvers,
    Verdict,
    Vote,
)
from cortex_plane.approvals.service import DOOR, ApprovalService
from cortex_plane.approvals.views import ApprovalView, NotificationView
from cortex_plane.cursors import cursor_for
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import AgentId, JobId
from cortex_plane.remote import DecisionRefused, given, read_pages, whole_id

if TYPE_CHECKING:
    from cortex_plane.client import Client
    from cortex_plane.plane import Plane


@dataclass(frozen=True, slots=True)
class Taken:
    """A decision that closed the request, or a vote that counts."""

    id: ApprovalId | None = None
    job_id: JobId | None = None
    decision: Verdict = "approved"
    outcome: ApprovalOutcome = "approved"
    by: str = ""
    at: datetime | None = None
    votes: int = 0
    quorum: int = 0

    def answer(self) -> Answer:
        if self.id is None or self.job_id is None or self.at is None:
            return Recorded(self.votes, self.quorum)
        return Decided(self.id, self.job_id, self.decision, self.outcome, self.by, self.at)


class ApprovalClient(ApprovalService):
    def __init__(self, client: Client) -> None:
        super().__init__(cast("Plane", client))
        self._client, self._server = client, client.server

    async def get(self, id_or_prefix: str) -> ApprovalRequest:
        return _request(await self._server.get(ApprovalView, "approvals", await self._id(id_or_prefix)))

    async def votes(self, id_or_prefix: str) -> Sequence[Vote]:
        return await self._server.get(list[Vote], "approvals", await self._id(id_or_prefix), "votes")

    async def asked(self, request: ApprovalRequest) -> Sequence[str]:
        return await self._server.get(list[str], "approvals", request.id, "approvers")

    async def notifications(self, request: ApprovalRequest) -> Sequence[NotificationView]:
        return await self._server.get(list[NotificationView], "approvals", request.id, "notifications")

    async def approve(
        self, id_or_prefix: str, *, by: str, reason: str | None = None, details: Any = None, door: str = DOOR
    ) -> Answer:
        return await self._asked_for(id_or_prefix, "approve", given(reason=reason, details=details))

    async def deny(self, id_or_prefix: str, *, by: str, reason: str | None = None, door: str = DOOR) -> Answer:
        return await self._asked_for(id_or_prefix, "deny", given(reason=reason))

    async def decide_many(
        self, ids: Sequence[str], decision: Verdict, *, by: str, reason: str | None = None, door: str = DOOR
    ) -> dict[ApprovalId, Answer]:
        wanted = dict.fromkeys([await self._id(one) for one in ids])
        verb = "approve" if decision == "approved" else "deny"
        return {ApprovalId(one): await self._asked_for(one, verb, given(reason=reason)) for one in wanted}

    async def remind(self, id_or_prefix: str, *, actor: str | None = None, door: str = DOOR) -> None:
        await self._server.post(ApprovalView, "approvals", await self._id(id_or_prefix), "remind")

    async def list(
        self,
        *,
        waiting_for: str | None = None,
        tenant: str | None = None,
        job: str | None = None,
        open_only: bool = True,
        before: str | None = None,
        limit: int = 50,
    ) -> list[ApprovalRequest]:
        """`waiting_for` must be the owner of the API key."""
        cursor = None if before is None else cursor_for("approvals", before)
        if waiting_for is not None:
            if job is not None or not open_only:
                raise InvalidInput("Through a server, --mine cannot be combined with --job or --all.", field="mine")
            found = await read_pages(self._server, ApprovalView, "inbox", limit=limit, cursor=cursor, tenant=tenant)
        else:
            job_id = None if job is None else await self._client.jobs.find(job)
            found = await read_pages(
                self._server,
                ApprovalView,
                "approvals",
                limit=limit,
                cursor=cursor,
                tenant=tenant,
                open_only=open_only,
                job=job_id,
            )
        return [_request(one) for one in found]

    async def _id(self, id_or_prefix: str) -> str:
        return await whole_id(self._server, "approval", id_or_prefix)

    async def _asked_for(self, id_or_prefix: str, verb: str, body: dict[str, Any]) -> Answer:
        try:
            taken = await self._server.post(Taken, "approvals", await self._id(id_or_prefix), verb, body=body)
        except DecisionRefused as refused:
            return _refusal(refused)
        except ApprovalNotFound:
            return Unknown()
        return taken.answer()


def _refusal(refused: DecisionRefused) -> Answer:
    said: Any = refused.problem.get("at")
    at = None if said is None else datetime.fromisoformat(said)
    match refused.code:
        case "already-decided":
            return AlreadyDecided(refused.problem["decision"], refused.problem.get("by"), at)
        case "approval-expired" if at is not None:
            return Expired(at)
        case "approval-withdrawn":
            return Withdrawn(at, superseded=bool(refused.problem.get("superseded")))
        case _:
            return NotAllowed(str(refused))


def _request(shown: ApprovalView) -> ApprovalRequest:
    """Fields that the API does not return stay empty: escalation and notifications."""
    return ApprovalRequest(
        id=shown.id,
        job_id=shown.job_id,
        run_id=shown.run_id,
        agent_id=AgentId(""),
        agent=shown.agent,
        tenant_id=shown.tenant_id,
        gate_key=shown.gate,
        action_summary=shown.summary,
        action_details=shown.details,
        digest="",
        designated=shown.designated,
        approvers=Approvers(tuple(shown.approver_users), tuple(shown.approver_groups)),
        escalate_to=NOBODY,
        quorum=shown.quorum,
        votes=shown.votes,
        no_self_approval=shown.no_self_approval,
        editable=shown.editable,
        on_expiry=shown.on_expiry,
        default=None,
        on_denial=shown.on_denial,
        created_at=shown.created_at,
        expires_at=shown.expires_at,
        ttl_seconds=(shown.expires_at - shown.created_at).total_seconds(),
        remind_at=None,
        reminders=shown.reminders,
        escalate_at=None,
        escalated_at=shown.escalated_at,
        decision=shown.decision,
        outcome=shown.outcome,
        decided_by=None,
        decided_by_name=shown.decided_by,
        reason=shown.reason,
        edited_details=shown.edited_details,
        used_at=None,
        closed_at=shown.closed_at,
        supersedes=shown.superseded,
    )
