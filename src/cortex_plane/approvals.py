"""Approvals as a program uses them: `plane.approvals.approve(id, by="ada")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cortex_plane.core.approvals import ApprovalId, ApprovalRequest, Verdict, Vote
from cortex_plane.core.decisions import Answer
from cortex_plane.core.jobs import JobId
from cortex_plane.core.shown_approvals import ShownNotification
from cortex_plane.operations.decide_approval import decide_approval, decide_approvals
from cortex_plane.operations.find_approval import find_approval, find_approval_id
from cortex_plane.operations.find_job import find_job_id
from cortex_plane.operations.find_user import find_user
from cortex_plane.operations.list_approvals import list_approvals
from cortex_plane.operations.remind_approval import remind_approval

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

DOOR = "program"
"""Where a decision came from, as the audit log says it, unless it is said otherwise."""


class Approvals:
    """What waits for people. Whoever decides is named, and must be allowed to; ids may be given by their first part."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

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
        """Newest first. `waiting_for` is somebody's name: what they may decide and have not voted on."""
        opened = await self._plane._open_here()
        store = opened.store
        return await list_approvals(
            store,
            waiting_for=None if waiting_for is None else (await find_user(store, waiting_for)).id,
            tenant_id=None if tenant is None else await opened.directory.tenant(tenant),
            job_id=None if job is None else JobId(await find_job_id(store, job)),
            open_only=open_only,
            before=None if before is None else ApprovalId(before),
            limit=limit,
        )

    async def get(self, id_or_prefix: str) -> ApprovalRequest:
        return await find_approval(await self._plane.store, id_or_prefix)

    async def votes(self, id_or_prefix: str) -> Sequence[Vote]:
        store = await self._plane.store
        return await store.approvals.votes(await find_approval_id(store, id_or_prefix))

    async def asked(self, request: ApprovalRequest) -> Sequence[str]:
        """What others are shown of those who are asked by name."""
        people = (await self._plane.store).people
        found = [await people.get_user(user_id) for user_id in request.approvers.users]
        return [user.label for user in found if user is not None]

    async def notifications(self, request: ApprovalRequest) -> Sequence[ShownNotification]:
        """Who was told, on which channel, and what has failed so far."""
        people = (await self._plane.store).people
        return [
            ShownNotification(
                "" if (user := await people.get_user(one.user_account_id)) is None else user.label,
                one.channel_type,
                one.notification_sent_at,
                one.message_id,
                one.error,
            )
            for one in request.notifications
        ]

    async def approve(
        self, id_or_prefix: str, *, by: str, reason: str | None = None, details: Any = None, door: str = DOOR
    ) -> Answer:
        """`details` replaces what was shown, where the gate allows that."""
        return await self._decide(id_or_prefix, "approved", by, reason, details, door)

    async def deny(self, id_or_prefix: str, *, by: str, reason: str | None = None, door: str = DOOR) -> Answer:
        return await self._decide(id_or_prefix, "denied", by, reason, None, door)

    async def decide_many(
        self, ids: Sequence[str], decision: Verdict, *, by: str, reason: str | None = None, door: str = DOOR
    ) -> dict[ApprovalId, Answer]:
        """Each by itself: one that cannot be decided does not keep the others from it."""
        store = await self._plane.store
        return await decide_approvals(store, ids, (await find_user(store, by)).id, decision, reason=reason, door=door)

    async def remind(self, id_or_prefix: str, *, actor: str | None = None, door: str = DOOR) -> None:
        """Asks everybody anew who has not voted."""
        await remind_approval(await self._plane.store, id_or_prefix, actor=actor, source=door)

    async def _decide(self, id_or_prefix: str, decision: Verdict, by: str, reason: str | None, edits: Any, door: str) -> Answer:
        store = await self._plane.store
        user = await find_user(store, by)
        return await decide_approval(store, id_or_prefix, user.id, decision, reason=reason, edits=edits, door=door)
