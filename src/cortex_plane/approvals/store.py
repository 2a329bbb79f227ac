"""Stores approval requests, votes, tokens and notifications."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from cortex_plane.approvals import rows as approval_rows
from cortex_plane.approvals.decision_store import Array, Decision, decide, expire
from cortex_plane.approvals.model import ApprovalId, ApprovalRequest, Approvers, NewApproval, Notification, Purpose, Verdict, Vote
from cortex_plane.approvals.rules import undecidable
from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import Contended, Unavailable
from cortex_plane.jobs.model import JobId, RunId, TenantId
from cortex_plane.json import dumps, loads
from cortex_plane.people.model import UserId
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.approvals.decisions import Answer
    from cortex_plane.ids import NewId
    from cortex_plane.jobs.outcomes import Transition
    from cortex_plane.storage.database import Database, Row

log = structlog.get_logger()

NO_DIGITS = "00000000-0000-0000-0000-000000000000"
NEWER_THAN_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff"
MOST_PASSED_OVER = 10_000
"""Maximum number of requests skipped in one pass because they could not be processed."""

Act = Callable[[ApprovalId], Awaitable[bool]]


class ApprovalStore:
    def __init__(self, database: Database, new_id: NewId) -> None:
        self._database, self._new_id = database, new_id

    async def open(self, transition: Transition, request: NewApproval, actor: str) -> bool:
        """Moves the job from RUNNING to WAITING_FOR_APPROVAL and stores the request, in one transaction. Jobs of
        `cortex.notify` notify its approvers. `transition` has that status, and may include a checkpoint and a cost.
        Returns False, and changes nothing, if the run was superseded. Idempotent: True if this request exists already."""
        if await self._database.transact(lambda: _open(transition, request, actor, self._database.array), divisible=True):
            return True
        return bool(await self._get([request.id]))  # The reply to the first attempt was lost.

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
        """Closes the request and moves its job, in one transaction. Of concurrent decisions, exactly one takes effect.
        `edits` replaces the details (None: as shown); `door` is the interface, for the audit log. With `token_hash`, the
        decision counts only while that token is the voter's. Raises InvalidInput if the edits are not allowed."""
        given = Decision(request_id, voter, decision, reason, edits, door, RunId(self._new_id()), token_hash)
        return await self._database.transact(lambda: decide(given, self._database.array))

    async def expire(self, limit: int) -> int:
        """Expires up to `limit` requests, each in its own transaction: several jobs in one could deadlock. Returns how many."""
        return await self._each_alone(self._expired, limit)

    async def remind_and_escalate(self, limit: int) -> int:
        """Sends up to `limit` due reminders and escalations, each in its own transaction. Returns how many."""
        return await self._each_alone(self._due, limit)

    async def due(self, limit: int) -> list[tuple[ApprovalId, Purpose]]:
        """Lists open requests whose reminder or escalation is due. Skips locked requests."""
        found = await self._database.read("approvals/due", limit=limit, passed_over=self._database.array([]))
        return [(ApprovalId(str(row["id"])), row["purpose"]) for row in found]

    async def _expired(self, limit: int, passed_over: Sequence[ApprovalId]) -> list[tuple[ApprovalId, Act]]:
        found = await self._database.read("approvals/expired", limit=limit, passed_over=self._database.array(passed_over))
        return [(ApprovalId(str(row["id"])), self._expire) for row in found]

    async def _due(self, limit: int, passed_over: Sequence[ApprovalId]) -> list[tuple[ApprovalId, Act]]:
        found = await self._database.read("approvals/due", limit=limit, passed_over=self._database.array(passed_over))
        return [(ApprovalId(str(row["id"])), self.escalate if row["purpose"] == "escalate" else self.remind) for row in found]

    async def _each_alone(
        self, find: Callable[[int, Sequence[ApprovalId]], Awaitable[list[tuple[ApprovalId, Act]]]], limit: int
    ) -> int:
        """Processes due requests one by one. Requests that could not be processed stay due, so the next page skips them:
        otherwise they could fill every batch."""
        done, passed_over = 0, list[ApprovalId]()
        while done < limit:
            found = await find(limit, passed_over)
            outcomes = [(each, await self._alone(act, each)) for each, act in found]
            done += sum(did for _, did in outcomes)
            failed = [each for each, did in outcomes if not did]
            if not failed or len(found) < limit or len(passed_over) > MOST_PASSED_OVER:
                break
            passed_over += failed
        return done

    async def _alone(self, act: Act, request_id: ApprovalId) -> bool:
        """Raises only connection errors. A request that is locked, or that fails, does not stop the others; the next pass retries
        it."""
        try:
            return await act(request_id)
        except Contended:
            return False
        except Exception as error:
            if isinstance(error, Unavailable) and not error.by_statement:
                raise
            log.warning("approval_deadline_failed", approval_request_id=request_id, error=f"{type(error).__name__}: {error}")
            return False

    async def _expire(self, request_id: ApprovalId) -> bool:
        run_id = RunId(self._new_id())
        return await self._database.transact(lambda: expire(request_id, run_id, self._database.array), divisible=True)

    async def remind(self, request_id: ApprovalId, entry: AuditEntry | None = None) -> bool:
        """Notifies all approvers who have not voted. Without an entry, only if a reminder is due; with an entry, at once, and
        the entry is recorded. Returns False if the request is closed, or no reminder is due."""
        return await self._database.transact(lambda: _remind(request_id, entry), divisible=True)

    async def escalate(self, request_id: ApprovalId) -> bool:
        """Escalates the request if that is due: notifies `escalate_to`, who may decide from now on."""
        return await self._database.transact(lambda: _escalate(request_id), divisible=True)

    async def next_due_in(self) -> float | None:
        """Returns the seconds until the next expiry, reminder or escalation; negative if one is overdue, None if none is open."""
        [row] = await self._database.read("approvals/next_due")
        return None if row["seconds"] is None else float(row["seconds"])

    async def get(self, request_id: ApprovalId) -> ApprovalRequest | None:
        found = await self._get([request_id])
        return found[0] if found else None

    async def find(self, prefix: str, limit: int = 5) -> list[ApprovalId]:
        """Returns up to `limit` ids that begin with the prefix."""
        low, high = prefix + NO_DIGITS[len(prefix) :], prefix + NEWER_THAN_ALL[len(prefix) :]
        return [
            ApprovalId(str(row["id"])) for row in await self._database.read("approvals/find", low=low, high=high, limit=limit)
        ]

    async def put_token(
        self, request_id: ApprovalId, user_id: UserId, channel_type: str, channel_user_id: str, token_hash: str
    ) -> bool:
        """Stores the hash of a token before it is sent. Raises Contended if the request is locked; retrying is safe.
        Returns False if the request is closed, the address is unlinked, or the account is disabled."""
        return bool(
            await self._database.write_batch(
                "approvals/put_token",
                request_id=request_id,
                user_id=user_id,
                channel_type=channel_type,
                channel_user_id=channel_user_id,
                token_hash=token_hash,
            )
        )

    async def by_token(self, token_hash: str) -> tuple[ApprovalId, UserId] | None:
        """Returns the request and the addressee of a token."""
        for row in await self._database.read("approvals/by_token", token_hash=token_hash):
            return ApprovalId(str(row["approval_request_id"])), UserId(str(row["user_account_id"]))
        return None

    async def record_notification(
        self, request_id: ApprovalId, notification: Notification, token_hash: str | None = None
    ) -> bool:
        """Records a delivery or a failure; returns whether the request is still open. A delivery is retried until it is recorded,
        because the message would be sent again. A failure is not: the next attempt records its own."""
        script = partial(_record_notification, request_id, notification, token_hash)
        return await self._database.transact(script, divisible=notification.error is not None)

    async def undecidable(self, request_ids: Sequence[ApprovalId]) -> dict[ApprovalId, str]:
        """Returns the open requests that too few people can decide, with the reason."""
        if not request_ids:
            return {}
        found = await self._database.read("approvals/deciders", ids=self._database.array(request_ids))
        problems = {ApprovalId(str(row["id"])): undecidable(row["quorum"], row["votes"], row["can_decide"]) for row in found}
        return {request_id: problem for request_id, problem in problems.items() if problem is not None}

    async def votes(self, request_id: ApprovalId) -> Sequence[Vote]:
        """Returns the votes, oldest first."""
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
        """Lists requests, newest first. `waiting_for`: only open requests that this user may decide and has not voted on: named
        directly, through a group, or as an approver of the tenant."""
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


def _open(transition: Transition, request: NewApproval, actor: str, array: Array) -> Transaction[bool]:
    waiting = yield from query(
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
    if request.supersedes is not None:
        yield from query("approvals/supersede", id=request.supersedes, job_id=request.job_id, closed_at=job["created_at"])
    approvers = request.approvers or (yield from _approvers_by_session(request, job))
    only_one = len(approvers.users) == 1 and not approvers.groups
    yield from query(
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
    problem = yield from _undecidable(request.id, array)
    yield from query("approvals/notify", request_id=request.id, purpose="ask")
    details = {"job_id": request.job_id, "gate": request.gate_key, "summary": request.action_summary, "digest": request.digest}
    if request.supersedes is not None:
        details["supersedes"] = request.supersedes
    yield from _record(AuditEntry("APPROVAL_REQUESTED", "approval", request.id, actor, None, None, request.tenant_id, details))
    if problem is not None:
        yield from query("approvals/notify_undecidable", id=request.id, problem=problem)
        told = {"job_id": request.job_id, "gate": request.gate_key, "problem": problem}
        yield from _record(AuditEntry("APPROVAL_UNDECIDABLE", "approval", request.id, actor, None, None, request.tenant_id, told))
    return True


def _undecidable(request_id: ApprovalId, array: Array) -> Transaction[str | None]:
    for row in (yield from query("approvals/deciders", ids=array([request_id]))):
        return undecidable(row["quorum"], row["votes"], row["can_decide"])
    return None


def _approvers_by_session(request: NewApproval, job: Row) -> Transaction[Approvers]:
    """Returns the user of the job's open session; no one if the request excludes the submitter or needs several votes."""
    if job["session_id"] is None or request.no_self_approval or request.quorum > 1:
        return Approvers()
    found = yield from query("people/get_session", id=str(job["session_id"]))
    return Approvers(tuple(UserId(str(row["user_account_id"])) for row in found if row["ended_at"] is None))


def _put_to(request_id: ApprovalId, approvers: Approvers, escalated: bool) -> Transaction[None]:
    for user_id in dict.fromkeys(approvers.users):
        yield from query("approvals/ask_user", request_id=request_id, user_id=user_id, escalated=escalated)
    for group_id in dict.fromkeys(approvers.groups):
        yield from query("approvals/ask_group", request_id=request_id, group_id=group_id, escalated=escalated)


def _remind(request_id: ApprovalId, entry: AuditEntry | None) -> Transaction[bool]:
    if not (yield from query("approvals/remind", id=request_id, asked_for=entry is not None)):
        return False
    if entry is not None:
        yield from query("approvals/forget_notices", id=request_id)
    yield from query("approvals/notify", request_id=request_id, purpose="remind")
    yield from query("approvals/plan_reminder", id=request_id)
    if entry is not None:
        yield from _record(entry)
    return True


def _escalate(request_id: ApprovalId) -> Transaction[bool]:
    for row in (yield from query("approvals/escalate", id=request_id)):
        escalate_to = Approvers.from_json(loads(row["escalate_to"]))
        yield from _put_to(request_id, escalate_to, escalated=True)
        yield from query("approvals/notify", request_id=request_id, purpose="escalate")
        details = {"job_id": str(row["job_id"]), "escalate_to": escalate_to.to_json()}
        tenant_id = str(row["tenant_id"])
        yield from _record(AuditEntry("APPROVAL_ESCALATED", "approval", request_id, tenant_id=tenant_id, details=details))
        return True
    return False


def _record_notification(request_id: ApprovalId, sent: Notification, token_hash: str | None) -> Transaction[bool]:
    yield from query("approvals/lock", id=request_id)
    if token_hash is not None:
        values = {
            "request_id": request_id,
            "user_id": sent.user_account_id,
            "channel_type": sent.channel_type,
            "channel_user_id": sent.channel_user_id,
            "token_hash": token_hash,
        }
        # A later message that was delivered sooner has replaced this token: then both are valid. A token that was revoked in
        # the meantime has been deleted, and stays invalid.
        if not (yield from query("approvals/restore_token", token_hash=token_hash)):
            yield from query("approvals/replace_tokens", **values)
    for row in (yield from query("approvals/notifications", id=request_id)):
        kept = [one for one in loads(row["notification_channels"]) if not _is_replaced(one, sent)]
        kept.append(approval_rows.stored_notification(sent, row["at"]))
        yield from query("approvals/put_notifications", id=request_id, channels=dumps(kept))
        return bool(row["is_open"])
    return False


def _is_replaced(kept: dict[str, Any], by: Notification) -> bool:
    """Whether `by` replaces this record: the same message, or a failure of the same address."""
    address = (kept["user_account_id"], kept["channel_type"], kept["channel_user_id"])
    if address != (by.user_account_id, by.channel_type, by.channel_user_id):
        return False
    return "error" in kept or (by.error is None and kept["message_id"] == by.message_id)


def _record(entry: AuditEntry) -> Transaction[None]:
    yield from query("audit/record", entries=dumps([entry.to_json()]))
