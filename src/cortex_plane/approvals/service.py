"""`plane.approvals`: list, show, approve, deny, remind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from cortex_plane.approvals.decisions import Answer, NotAllowed, Unknown, parse
from cortex_plane.approvals.model import (
    NOBODY,
    AmbiguousApproval,
    ApprovalClosed,
    ApprovalId,
    ApprovalNotFound,
    ApprovalRequest,
    Approvers,
    Names,
    Verdict,
    Vote,
)
from cortex_plane.approvals.rules import checked_reason, is_named
from cortex_plane.approvals.views import NotificationView
from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import InvalidInput
from cortex_plane.ids import DASHES, ID_LENGTH, PART_OF_AN_ID
from cortex_plane.jobs.lookup import find_job_id
from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.json import refuse_larger
from cortex_plane.people.roles import Caller, Role
from cortex_plane.people.users import find_user

if TYPE_CHECKING:
    from cortex_plane.approvals.messages import Click
    from cortex_plane.people.model import UserGroupId, UserId
    from cortex_plane.people.store import PeopleStore
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


async def find_approval(store: Store, id_or_prefix: str) -> ApprovalRequest:
    """Returns the request with this id or id prefix. Raises ApprovalNotFound, AmbiguousApproval or InvalidInput."""
    request_id = await find_approval_id(store, id_or_prefix)
    request = await store.approvals.get(request_id)
    if request is None:
        raise ApprovalNotFound(request_id)
    return request


async def find_approval_id(store: Store, id_or_prefix: str) -> ApprovalId:
    prefix = str(id_or_prefix).strip().lower()
    if not PART_OF_AN_ID.fullmatch(prefix) or any((char == "-") != (place in DASHES) for place, char in enumerate(prefix)):
        raise InvalidInput(f"{id_or_prefix!r:.60} is not the id of an approval or its first four or more characters.", field="id")
    if len(prefix) == ID_LENGTH:
        return ApprovalId(prefix)
    found = await store.approvals.find(prefix)
    if not found:
        raise ApprovalNotFound(prefix)
    if len(found) > 1:
        raise AmbiguousApproval(prefix, found)
    return found[0]


# -- find approvers ----------------------------------------------------------------------------
# Resolves the users and groups that a gate names.


GROUP = "group:"


async def find_approvers(people: PeopleStore, tenant_id: TenantId, names: Names | None, field: str = "approvers") -> Approvers:
    """Resolves names to ids. Raises InvalidInput for an unknown name: no one could decide such a request."""
    if names is None:
        return NOBODY
    asked = [names] if isinstance(names, str) else list(names)
    if not asked:
        raise InvalidInput(f"{field} is empty, so no one could decide. Leave it out, or name a user or group.", field=field)
    users: list[UserId] = []
    groups: list[UserGroupId] = []
    for name in asked:
        if not isinstance(name, str):
            raise InvalidInput(f"{field} must hold names of users, or group:NAME for groups, not {name!r:.80}.", field=field)
        if name.startswith(GROUP):
            groups.append(await _group(people, tenant_id, name.removeprefix(GROUP), field))
        else:
            users.append(await _user(people, name, field))
    return Approvers(tuple(dict.fromkeys(users)), tuple(dict.fromkeys(groups)))


async def _user(people: PeopleStore, name: str, field: str) -> UserId:
    found = await people.find_user(name)
    if found is None:
        raise InvalidInput(f'{field}: there is no user "{name}". To add one: cortex users add NAME', field=field)
    return found.id


async def _group(people: PeopleStore, tenant_id: TenantId, name: str, field: str) -> UserGroupId:
    found = await people.find_group(tenant_id, name)
    if found is None:
        raise InvalidInput(
            f'{field}: there is no group "{name}" in this tenant. To add one: cortex user-groups add NAME', field=field
        )
    return found.id


# -- decide approval ---------------------------------------------------------------------------
# Decides approval requests for every interface: by token, as a signed-in user, or in bulk.
#
# Permission is checked in the transaction that records the decision. The interface only authenticates the user.


MOST_AT_ONCE = 1_000
EDITS_LIMIT_BYTES = 1024 * 1024


async def decide_by_token(
    store: Store, token: object, decision: Verdict, *, reason: str | None = None, edits: Any = None, door: str
) -> Answer:
    """Decides as the addressee of the token. Malformed and unknown tokens get the same answer."""
    decision, reason = _checked(decision), checked_reason(reason)
    refuse_larger(edits, EDITS_LIMIT_BYTES, "details")
    found = await _addressee(store, token)
    if found is None:
        return Unknown()
    request_id, user_id, token_hash = found
    return await store.approvals.decide(
        request_id, user_id, decision, reason=reason, edits=edits, door=door, token_hash=token_hash
    )


async def get_by_token(store: Store, token: object) -> tuple[ApprovalRequest, UserId] | None:
    """Returns the request and the addressee of a token, or None if it is unknown. Read only."""
    found = await _addressee(store, token)
    if found is None:
        return None
    request = await store.approvals.get(found[0])
    return None if request is None else (request, found[1])


async def decide_approval(
    store: Store,
    id_or_prefix: str,
    user_id: UserId,
    decision: Verdict,
    *,
    reason: str | None = None,
    edits: Any = None,
    door: str,
) -> Answer:
    """Decides as a signed-in user. Returns the result, refusals included. Raises ApprovalNotFound or InvalidInput."""
    decision, reason = _checked(decision), checked_reason(reason)
    refuse_larger(edits, EDITS_LIMIT_BYTES, "details")
    request_id = await find_approval_id(store, id_or_prefix)
    return await store.approvals.decide(request_id, user_id, decision, reason=reason, edits=edits, door=door)


async def decide_approvals(
    store: Store, request_ids: Sequence[str], user_id: UserId, decision: Verdict, *, reason: str | None = None, door: str
) -> dict[ApprovalId, Answer]:
    """Decides each request in its own transaction. One that cannot be decided does not affect the others."""
    decision, reason = _checked(decision), checked_reason(reason)
    if len(request_ids) > MOST_AT_ONCE:
        raise InvalidInput(f"At most {MOST_AT_ONCE:,} approvals can be decided at once.", field="ids")
    wanted = dict.fromkeys([await find_approval_id(store, request_id) for request_id in request_ids])
    return {
        request_id: await store.approvals.decide(request_id, user_id, decision, reason=reason, door=door) for request_id in wanted
    }


async def _addressee(store: Store, token: object) -> tuple[ApprovalId, UserId, str] | None:
    parsed = parse(token)
    if parsed is None:
        return None
    found = await store.approvals.by_token(parsed.hash)
    return None if found is None else (*found, parsed.hash)


def _checked(decision: Any) -> Verdict:
    if decision not in get_args(Verdict):
        raise InvalidInput(f'decision must be "approved" or "denied", not {decision!r:.80}.', field="decision")
    chosen: Verdict = decision
    return chosen


# -- decide by click ---------------------------------------------------------------------------
# Decides by a button in a chat. The user who pressed it must be the addressee of the message.


NOT_YOURS = NotAllowed("This message was sent to another user, who must decide. If you were asked too, use your own message.")


async def decide_by_click(store: Store, channel_type: str, click: Click) -> Answer:
    """Checks the user as well as the token: a message may be forwarded, or visible to a whole channel."""
    found = await get_by_token(store, click.token)
    if found is None:
        return Unknown()
    _, addressee = found
    who = await store.people.find_by_channel(channel_type, click.channel_user_id)
    if who is None or who.id != addressee:
        return NOT_YOURS
    return await decide_by_token(store, click.token, click.decision, door=channel_type)


# -- list approvals ----------------------------------------------------------------------------
# Lists approval requests, newest first: the inbox of a user, of a tenant, or of a job.


LARGEST_PAGE = 1_000


async def list_approvals(
    store: Store,
    *,
    waiting_for: UserId | None = None,
    tenant_id: TenantId | None = None,
    job_id: JobId | None = None,
    open_only: bool = True,
    before: ApprovalId | None = None,
    limit: int = 50,
) -> list[ApprovalRequest]:
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"limit must be from 1 to {LARGEST_PAGE:,}, not {limit!r:.80}.", field="limit")
    if waiting_for is not None and not open_only:
        raise InvalidInput("waiting_for lists only open approvals: leave out waiting_for or open_only=False.", field="open_only")
    return await store.approvals.list(
        waiting_for=waiting_for, tenant_id=tenant_id, job_id=job_id, open_only=open_only, before=before, limit=limit
    )


# -- visible approvals -------------------------------------------------------------------------
# Finds an approval request that the caller may see. To other callers it is reported as not found.


async def find_visible_approval(store: Store, caller: Caller, id_or_prefix: str, *, only_here: bool = False) -> ApprovalRequest:
    """Viewers and approvers of the request's tenant may see it, and approvers named by user or group from any tenant.
    With `only_here`, requests of other tenants are reported as not found."""
    request = await find_approval(store, id_or_prefix)
    if request.tenant_id == caller.tenant_id:
        if caller.may(Role.VIEWER) or (caller.may(Role.APPROVER) and not request.designated):
            return request
    elif only_here:
        raise ApprovalNotFound(request.id)
    if caller.user_id is not None and is_named(request, caller.user_id, await store.people.groups_of(caller.user_id)):
        return request
    raise ApprovalNotFound(request.id)


# -- remind approval ---------------------------------------------------------------------------
# Notifies the approvers of a request again, on demand.


async def remind_approval(store: Store, id_or_prefix: str, *, actor: str | None = None, source: str | None = None) -> None:
    """Notifies all approvers who have not voted. Raises ApprovalClosed if the request is closed or expired."""
    request = await find_approval(store, id_or_prefix)
    details = {"job_id": request.job_id}
    entry = AuditEntry("APPROVAL_REMINDED", "approval", request.id, actor, None, source, request.tenant_id, details)
    if not await store.approvals.remind(request.id, entry):
        raise ApprovalClosed(request.id)


# -- service -----------------------------------------------------------------------------------


DOOR = "program"
"""Default origin of a decision in the audit log."""


class ApprovalService:
    """`plane.approvals`: list and decide approval requests.

    Ids may be shortened to a unique prefix of at least four characters. `by` names the user who decides."""

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
        """Lists requests, newest first.

        - `waiting_for`: name of a user; only open requests that this user may decide and has not voted on.
        - `tenant`, `job`: only requests of this tenant or job.
        - `open_only`: without it, closed requests are listed too.
        - `before`: id of the last request of the previous page.
        - `limit`: from 1 to 1,000.

        Raises InvalidInput, or UserNotFound for an unknown name.
        """
        store = self._plane.store
        return await list_approvals(
            store,
            waiting_for=None if waiting_for is None else (await find_user(store, waiting_for)).id,
            tenant_id=None if tenant is None else await self._plane.directory.tenant(tenant),
            job_id=None if job is None else JobId(await find_job_id(store, job)),
            open_only=open_only,
            before=None if before is None else ApprovalId(before),
            limit=limit,
        )

    async def get(self, id_or_prefix: str) -> ApprovalRequest:
        """Returns one request. Raises ApprovalNotFound, or AmbiguousApproval if the prefix fits several."""
        return await find_approval(self._plane.store, id_or_prefix)

    async def votes(self, id_or_prefix: str) -> Sequence[Vote]:
        """Returns the votes on a request, oldest first. Raises ApprovalNotFound or AmbiguousApproval."""
        store = self._plane.store
        return await store.approvals.votes(await find_approval_id(store, id_or_prefix))

    async def asked(self, request: ApprovalRequest) -> Sequence[str]:
        """Returns the display names of the approvers named by user. Members of approver groups are not listed."""
        people = self._plane.store.people
        found = [await people.get_user(user_id) for user_id in request.approvers.users]
        return [user.label for user in found if user is not None]

    async def notifications(self, request: ApprovalRequest) -> Sequence[NotificationView]:
        """Returns the notifications of a request: approver, channel, time sent, and the last error."""
        people = self._plane.store.people
        return [
            NotificationView(
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
        """Approves a request; the job resumes once the quorum is reached.

        - `by`: name of the user who approves.
        - `reason`: stored with the vote; the agent can read it.
        - `details`: edited details, if the request is editable. None approves the details as shown.
        - `door`: origin of the decision, for the audit log.

        Returns `Decided`, `Recorded` (more votes are needed), or why it was refused: `AlreadyDecided`, `Expired`,
        `Withdrawn`, `NotAllowed`. Raises ApprovalNotFound, UserNotFound or InvalidInput.
        """
        return await self._decide(id_or_prefix, "approved", by, reason, details, door)

    async def deny(self, id_or_prefix: str, *, by: str, reason: str | None = None, door: str = DOOR) -> Answer:
        """Denies a request; one denial closes it, whatever the quorum. Parameters, result and errors are those of `approve`."""
        return await self._decide(id_or_prefix, "denied", by, reason, None, door)

    async def decide_many(
        self, ids: Sequence[str], decision: Verdict, *, by: str, reason: str | None = None, door: str = DOOR
    ) -> dict[ApprovalId, Answer]:
        """Decides each request in its own transaction. One that cannot be decided does not affect the others."""
        store = self._plane.store
        return await decide_approvals(store, ids, (await find_user(store, by)).id, decision, reason=reason, door=door)

    async def remind(self, id_or_prefix: str, *, actor: str | None = None, door: str = DOOR) -> None:
        """Notifies all approvers who have not voted. Raises ApprovalNotFound, or ApprovalClosed if it is closed or expired."""
        await remind_approval(self._plane.store, id_or_prefix, actor=actor, source=door)

    async def _decide(self, id_or_prefix: str, decision: Verdict, by: str, reason: str | None, edits: Any, door: str) -> Answer:
        store = self._plane.store
        user = await find_user(store, by)
        return await decide_approval(store, id_or_prefix, user.id, decision, reason=reason, edits=edits, door=door)
