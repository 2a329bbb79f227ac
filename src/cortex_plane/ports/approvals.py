"""What we need of a database for approvals: a request and its waiting job change together, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from cortex_plane.core.approvals import ApprovalId, ApprovalRequest, NewApproval, Notification, Purpose, Verdict, Vote
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.decisions import Answer
from cortex_plane.core.jobs import JobId, TenantId
from cortex_plane.core.outcomes import Transition
from cortex_plane.core.people import UserId


class Approvals(Protocol):
    async def open(self, transition: Transition, request: NewApproval, actor: str) -> bool:
        """Moves the job from RUNNING to WAITING_FOR_APPROVAL and stores the request, in one transaction; its approvers are
        told by jobs of `cortex.notify`. `transition` has that status, and may bring a checkpoint and a cost.
        False when the run was superseded: then nothing changed. The same request a second time is open already: True."""

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
        """Consumes the request and moves its job, in one transaction; of any number of decisions exactly one wins.
        `edits` replaces the details (None: as shown); `door` is where the decision came from, for the audit. With
        `token_hash`, only while that token is the voter's. Raises InvalidInput when the edits are not allowed."""

    async def expire(self, limit: int) -> int:
        """Ends what nobody decided in time, as each request says; returns how many."""

    async def due(self, limit: int) -> list[tuple[ApprovalId, Purpose]]:
        """Which open requests are to be reminded of, or to be escalated, now."""

    async def remind(self, request_id: ApprovalId, entry: AuditEntry | None = None) -> bool:
        """Asks everybody anew who has not voted. Without an entry only if a reminder is due; with one, because somebody
        asked for it, which is recorded. False when it changed nothing: the request is closed, or no reminder is due."""

    async def escalate(self, request_id: ApprovalId) -> bool:
        """Asks those whom the request is to be escalated to, if that is due; from now on they may decide too."""

    async def next_due_in(self) -> float | None:
        """Seconds until the next request expires or is to be reminded of or escalated; negative when one is."""

    async def get(self, request_id: ApprovalId) -> ApprovalRequest | None: ...

    async def find(self, prefix: str) -> list[ApprovalId]:
        """At most five ids that begin with the prefix."""

    async def put_token(
        self, request_id: ApprovalId, user_id: UserId, channel_type: str, channel_user_id: str, token_hash: str
    ) -> bool:
        """Commits the hash before its plaintext is used; it replaces the addressee's earlier one on that channel.
        False when the request is closed: then nothing may be sent."""

    async def by_token(self, token_hash: str) -> tuple[ApprovalId, UserId] | None:
        """The request that a token is for, and whose it is."""

    async def record_notification(self, request_id: ApprovalId, notification: Notification) -> bool:
        """Keeps what is needed to edit the message later; the same message a second time replaces the first.
        False when the request was closed meanwhile: then the message must be edited at once."""

    async def votes(self, request_id: ApprovalId) -> Sequence[Vote]:
        """In the order in which they were given."""

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
        """Newest first. `waiting_for`: open ones that this user may decide and has not voted on, named, by a group, or
        because it is open to all approvers of a tenant."""
