"""People, a job that waits for them, and what the tests of approvals ask about both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cortex_plane.approvals.decisions import Answer, ApprovalToken, mint
from cortex_plane.approvals.model import NOTIFY_AGENT, ApprovalId, ApprovalRequest, Approvers, NewApproval, Verdict
from cortex_plane.approvals.rules import new_approval
from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, INTERNAL_QUEUE, Claimed, JobId, TenantId
from cortex_plane.jobs.outcomes import Transition
from cortex_plane.jobs.states import JobStatus
from cortex_plane.json import loads
from cortex_plane.json_schema import check_schema
from cortex_plane.people.model import ChannelId, LinkedChannel, User, UserGroup, UserGroupId, UserId
from tests.contract.support import Raw, Scene

# The raw client of SQLite takes the schema's name out of what it is given.
NOTIFIER = "'cortex' || '.notify'"
DETAILS = {"image": "shop:1.4.0", "replicas": 3}


class Desk:
    """Where requests come in and people decide."""

    def __init__(self, scene: Scene, raw: Raw) -> None:
        self.scene, self.raw, self.store = scene, raw, scene.store
        self.approvals = scene.store.approvals

    async def user(self, name: str, *roles: str, tenant_id: TenantId | None = None, **fields: Any) -> User:
        user = User(UserId(new_id()), name, **fields)
        assert await self.store.people.add_user(user, AuditEntry("USER_ADDED", "user", user.id))
        for role in roles:
            tenant = "null" if tenant_id is None else f"'{tenant_id}'"
            await self.raw(f"insert into cortex.user_role values ('{user.id}', {tenant}, '{role}')")
        return user

    async def group(self, name: str, *members: User) -> UserGroupId:
        group = UserGroup(UserGroupId(new_id()), DEFAULT_TENANT_ID, name)
        assert await self.store.people.add_group(group, AuditEntry("GROUP_ADDED", "user_group", group.id))
        for member in members:
            await self.store.people.add_member(group.id, member.id, AuditEntry("MEMBER_ADDED", "user_group", group.id))
        return group.id

    async def request(self, claimed: Claimed, **fields: Any) -> NewApproval:
        values: dict[str, Any] = {"summary": "Deploy 1.4.0 to production", "details": DETAILS, **fields}
        return new_approval(
            request_id=ApprovalId(new_id()),
            job_id=claimed.job_id,
            run_id=claimed.run_id,
            agent_id=await self.scene.agent(claimed.job_type),
            tenant_id=claimed.tenant_id,
            gate_key="approval",
            token_hash=token().hash,
            check_schema=check_schema,
            **values,
        )

    async def open(self, request: NewApproval) -> bool:
        return await self.approvals.open(waits(request), request, "worker:test")

    async def asked(self, *users: User, **fields: Any) -> NewApproval:
        """An open request of a job of its own, put to these people; to all approvers if there are none."""
        job = fields.pop("job", {})
        if users:
            fields.setdefault("approvers", Approvers(tuple(user.id for user in users)))
        request = await self.request(await self.scene.running(**job), **fields)
        assert await self.open(request)
        return request

    async def decide(self, request: NewApproval, user: User, decision: Verdict = "approved", **fields: Any) -> Answer:
        return await self.approvals.decide(request.id, user.id, decision, **{"door": "test", **fields})

    async def link(self, user: User, channel_type: str, channel_user_id: str) -> LinkedChannel:
        channel = LinkedChannel(ChannelId(new_id()), user.id, channel_type, channel_user_id)
        assert await self.store.people.link_channel(channel, AuditEntry("CHANNEL_LINKED", "user", user.id))
        return channel

    async def send_token(self, request: NewApproval, user: User, channel_user_id: str | None = None) -> ApprovalToken:
        """To an address of this person, which is linked if it is not yet."""
        channel_user_id = channel_user_id or f"chat of {user.name}"
        if all(one.channel_user_id != channel_user_id for one in await self.store.people.channels(user.id)):
            await self.link(user, "telegram", channel_user_id)
        made = token()
        assert await self.approvals.put_token(request.id, user.id, "telegram", channel_user_id, made.hash)
        return made

    async def stored(self, request: NewApproval) -> ApprovalRequest:
        found = await self.approvals.get(request.id)
        assert found is not None
        return found

    async def told(self, request: NewApproval) -> list[tuple[str, UserId]]:
        """Whom jobs of the plane's own agent are to tell, and why; in the order in which they were made."""
        found = await self.raw(f"select payload from cortex.job where job_type = {NOTIFIER} order by position")
        payloads = [loads(row[0]) for row in found]
        assert all(set(payload) == {"approval_request_id", "user_account_id", "purpose"} for payload in payloads)
        mine = [payload for payload in payloads if payload["approval_request_id"] == request.id]
        return [(payload["purpose"], UserId(payload["user_account_id"])) for payload in mine]

    async def with_notifier(self) -> None:
        await self.scene.agent(NOTIFY_AGENT, queue=INTERNAL_QUEUE)

    async def audited(self, request: NewApproval) -> list[str]:
        return [record.entry.action for record in await self.store.audit.list(request.id)]


def waits(request: NewApproval, **fields: Any) -> Transition:
    transition = Transition(JobId(request.job_id), request.run_id, JobStatus.WAITING_FOR_APPROVAL, "ask")
    return transition._replace(**fields)


def token() -> ApprovalToken:
    return mint(bytes.fromhex(new_id().replace("-", "") * 2))


def changed(request: NewApproval, **fields: Any) -> NewApproval:
    return replace(request, **fields)
