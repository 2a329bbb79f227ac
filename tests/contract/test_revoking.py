"""What revoking does: a key never may more than its owner, and what ends with an account does not come back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import SimpleNamespace

import anyio.lowlevel
import pytest

from cortex_plane.approvals.decisions import Decided, NotAllowed, Unknown, hash_of
from cortex_plane.approvals.messages import Address, ApprovalMessage, ClosedMessage, Sent
from cortex_plane.approvals.notify import Errand, Notifier
from cortex_plane.durable.context import Context
from cortex_plane.errors import Denied, InvalidInput
from cortex_plane.grants.execution import RunWish, start_run
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.people.keys import owner_for
from cortex_plane.people.login import open_sign_in
from cortex_plane.people.roles import SESSION_BYTES, GivenRole, Role, WrongPassword, digest, secret_text, within
from cortex_plane.people.users import disable_user, enable_user
from cortex_plane.testing import TestPlane
from tests.contract.approval_scene import Desk, token
from tests.contract.schedule_scene import pass_time, reporting, settle, slow
from tests.contract.support import Scene

pytestmark = pytest.mark.anyio

HERE, THERE = TenantId("here"), TenantId("there")


@pytest.mark.parametrize(
    ("key", "owner", "common"),
    [
        ([(Role.OPERATOR, HERE)], [(Role.ADMIN, HERE)], [(Role.OPERATOR, HERE)]),
        ([(Role.OPERATOR, HERE)], [(Role.VIEWER, HERE)], [(Role.VIEWER, HERE)]),
        ([(Role.OPERATOR, HERE)], [(Role.ADMIN, THERE)], []),
        ([(Role.OPERATOR, HERE)], [], []),
        ([(Role.ADMIN, None)], [(Role.SUBMITTER, HERE)], [(Role.SUBMITTER, HERE)]),
        ([(Role.VIEWER, None)], [(Role.ADMIN, None)], [(Role.VIEWER, None)]),
        ([(Role.APPROVER, HERE)], [(Role.ADMIN, HERE)], []),
        ([(Role.APPROVER, HERE), (Role.VIEWER, HERE)], [(Role.APPROVER, None)], [(Role.APPROVER, HERE)]),
    ],
)
def test_a_key_has_what_both_it_and_its_owner_have(
    key: list[tuple[Role, TenantId | None]],
    owner: list[tuple[Role, TenantId | None]],
    common: list[tuple[Role, TenantId | None]],
) -> None:
    given = within([GivenRole(*one) for one in key], [GivenRole(*one) for one in owner])

    assert [(one.role, one.tenant_id) for one in given] == common


async def roles(plane: TestPlane, secret: str) -> list[str] | None:
    credential = await plane.access.by_key(secret)
    return None if credential is None else sorted(given.role for given in credential.given)


async def test_a_key_loses_what_its_owner_loses(plane: TestPlane) -> None:
    await plane.access.add_user("ann")
    await plane.access.give_role("ann", "operator", tenant="default")
    key = await plane.access.add_key("mine", ["operator"], tenant="default", user="ann")
    before = await roles(plane, key.secret)

    await plane.access.take_role("ann", "operator", tenant="default")
    await plane.access.give_role("ann", "viewer", tenant="default")

    assert (before, await roles(plane, key.secret)) == (["operator"], ["viewer"])


async def test_a_role_that_its_owner_does_not_have_is_refused_when_a_key_is_made(plane: TestPlane) -> None:
    await plane.access.add_user("ann")
    await plane.access.give_role("ann", "viewer", tenant="default")

    for wanted, tenant in ((["operator"], "default"), (["viewer"], None)):
        with pytest.raises(InvalidInput) as refused:
            await plane.access.add_key("mine", wanted, tenant=tenant, user="ann")
        assert refused.value.field == "roles"


async def test_the_key_of_a_service_account_outlives_the_person_who_made_it(plane: TestPlane) -> None:
    for name in ("ann", "ben"):
        await plane.access.add_user(name)
        await plane.access.give_role(name, "admin")
    await plane.people.add("ci", owner="ann")
    await plane.access.give_role("ci", "submitter", tenant="default")
    key = await plane.access.add_key("ci", ["submitter"], tenant="default", user="ci", actor="user:ann")

    await plane.people.disable("ann")
    await plane.people.change_owner("ci", "ben", actor="user:ben")

    assert await roles(plane, key.secret) == ["submitter"]
    assert (await plane.people.get("ci")).owner_id == (await plane.people.get("ben")).id
    await plane.people.disable("ci")
    assert await roles(plane, key.secret) is None


async def test_a_service_account_is_owned_by_an_admin_and_neither_signs_in_nor_decides(plane: TestPlane) -> None:
    @plane.agent("gate")
    async def gate(ctx: Context) -> None:
        await ctx.approval("Do it?")

    await plane.access.add_user("ann")
    with pytest.raises(InvalidInput, match="owned by a person who is an admin"):
        await plane.people.add("ci", owner="ann")
    await plane.access.give_role("ann", "admin")
    await plane.people.add("ci", owner="ann")
    await plane.access.give_role("ci", "approver")
    await plane.submit("gate")
    await plane.work()

    (request,) = await plane.approvals.list()
    assert isinstance(await plane.approvals.approve(request.id, by="ci"), NotAllowed)
    assert await plane.approvals.list(waiting_for="ci") == []
    with pytest.raises(InvalidInput, match="no password"):
        await plane.access.set_password("ci", "correct horse battery")


async def test_nobody_makes_a_key_for_another_person(plane: TestPlane) -> None:
    here = await plane.directory.tenant("default")
    for name in ("ann", "ben"):
        await plane.access.add_user(name)
        await plane.access.give_role(name, "admin", tenant="default")
    ann = (await plane.people.get("ann")).id

    assert await owner_for(plane.store, ann, here, None) == "ann"
    assert await owner_for(plane.store, None, here, None) is None
    with pytest.raises(Denied, match="belongs to whoever makes it"):
        await owner_for(plane.store, ann, here, "ben")


async def test_disabling_a_person_ends_keys_sign_ins_sessions_and_tokens_for_good(scene: Scene, desk: Desk) -> None:
    store = desk.store
    ann, ben = await desk.user("ann", "approver"), await desk.user("ben", "approver")
    request = await desk.asked(ann, ben)
    hers, his = await desk.send_token(request, ann), await desk.send_token(request, ben, "43")
    account = await store.accounts.find("ann")
    assert account is not None
    signed_in = await open_sign_in(store, account)

    await disable_user(store, "ann", actor="boss")
    await enable_user(store, "ann", actor="boss")

    assert await store.sign_ins.credential(digest(signed_in.token)) is None
    assert await store.approvals.by_token(hers.hash) is None
    assert await store.approvals.by_token(his.hash) is not None
    assert isinstance(await desk.decide(request, ann, token_hash=hers.hash), Unknown)
    assert isinstance(await desk.decide(request, ann), Decided), "by their role, which they have still"
    entry = next(one.entry for one in await store.audit.list(ann.id) if one.entry.action == "USER_DISABLED")
    assert entry.details == {"sign_ins": 1, "keys": 0, "sessions": 0, "approval_tokens": 1}


async def test_somebody_who_is_disabled_while_their_password_is_compared_is_not_signed_in(desk: Desk) -> None:
    await desk.user("ann", "approver")
    account = await desk.store.accounts.find("ann")
    assert account is not None
    await disable_user(desk.store, "ann")

    with pytest.raises(WrongPassword):
        await open_sign_in(desk.store, account, random_bytes=lambda size: b"7" * size)

    await enable_user(desk.store, "ann")
    assert await desk.store.sign_ins.credential(digest(secret_text(b"7" * SESSION_BYTES))) is None


async def test_no_key_is_made_for_a_disabled_account(plane: TestPlane) -> None:
    await plane.access.add_user("ann")
    await plane.access.give_role("ann", "viewer", tenant="default")
    await plane.people.disable("ann")

    with pytest.raises(InvalidInput, match="ann is disabled") as refused:
        await plane.access.add_key("mine", ["viewer"], tenant="default", user="ann")

    assert refused.value.field == "user"


async def test_a_key_that_ended_with_its_owner_does_not_come_back(plane: TestPlane) -> None:
    await plane.access.add_user("ann")
    await plane.access.give_role("ann", "viewer", tenant="default")
    key = await plane.access.add_key("mine", ["viewer"], tenant="default", user="ann")
    session = await plane.people.start_session("ann")

    await plane.people.disable("ann")
    await plane.people.enable("ann")

    assert await roles(plane, key.secret) is None
    assert (await plane.people.session(session.id)).ended_at is not None
    again = await plane.access.add_key("mine", ["viewer"], tenant="default", user="ann")
    assert await roles(plane, again.secret) == ["viewer"]


async def test_no_token_is_made_for_a_disabled_account(desk: Desk) -> None:
    ann = await desk.user("ann", "approver")
    request = await desk.asked(ann)
    await desk.link(ann, "telegram", "42")
    await disable_user(desk.store, "ann")

    assert not await desk.approvals.put_token(request.id, ann.id, "telegram", "42", token().hash)


async def test_unlinking_an_address_voids_what_was_sent_there(plane: TestPlane) -> None:
    @plane.agent("gate")
    async def gate(ctx: Context) -> None:
        await ctx.approval("Do it?", approvers="ann")

    ann = await plane.people.add("ann")
    gone, kept = [await plane.people.link("ann", "telegram", address) for address in ("42", "43")]
    await plane.submit("gate")
    await plane.work()
    (request,) = await plane.approvals.list()
    approvals = plane.store.approvals
    made = {}
    for channel in (gone, kept):
        made[channel.id] = token()
        assert await approvals.put_token(request.id, ann.id, "telegram", channel.channel_user_id, made[channel.id].hash)

    await plane.people.unlink("ann", gone.id, actor="boss")

    assert await approvals.by_token(made[gone.id].hash) is None
    assert await approvals.by_token(made[kept.id].hash) is not None


class Meanwhile:
    """A channel that, while its message is on the way, does something else."""

    name = "Meanwhile"
    edits = False

    def __init__(self, act: Callable[[], Awaitable[object]]) -> None:
        self.act, self.tokens, self.edited = act, list[str](), list[str]()

    async def edit(self, sent: Sent, closed: ClosedMessage) -> None:
        self.edited.append(sent.message_id)

    async def send(self, message: ApprovalMessage, to: Address) -> Sent:
        self.tokens.append(hash_of(message.token))
        if len(self.tokens) == 1:
            await self.act()
        return Sent(to.id, {})


@pytest.mark.parametrize("meanwhile", ["unlinked", "linked anew", "disabled", "enabled anew"])
async def test_a_message_on_its_way_opens_nothing_once_its_receiver_was_revoked(plane: TestPlane, meanwhile: str) -> None:
    @plane.agent("gate")
    async def gate(ctx: Context) -> None:
        await ctx.approval("Do it?", approvers=["ann", "ben"])

    async def revoke() -> None:
        if meanwhile in {"unlinked", "linked anew"}:
            await plane.people.unlink("ann", link.id)
        else:
            await plane.people.disable("ann")
        if meanwhile == "linked anew":
            await plane.people.link("ann", "teams", "19:abc")
        if meanwhile == "enabled anew":
            await plane.people.enable("ann")

    teams = Meanwhile(revoke)
    plane.channels["teams"] = teams
    await plane.people.add("ann")
    await plane.people.add("ben")
    link = await plane.people.link("ann", "teams", "19:abc")
    await plane.submit("gate")
    await plane.work()

    approvals = plane.store.approvals
    [sent] = teams.tokens
    assert await approvals.by_token(sent) is None
    (request,) = await plane.approvals.list()
    ann = (await plane.people.get("ann")).id
    assert isinstance(await approvals.decide(request.id, ann, "approved", door="test", token_hash=sent), Unknown)


async def test_a_message_that_is_not_sent_because_of_an_unlinking_leaves_the_others_to_be_closed(plane: TestPlane) -> None:
    """The jobs that close the messages of a request have derived ids: made too early, they would not be made again."""

    @plane.agent("gate")
    async def gate(ctx: Context) -> None:
        await ctx.approval("Do it?", approvers="ann")

    teams = Meanwhile(anyio.lowlevel.checkpoint)
    teams.edits = True
    plane.channels["teams"] = teams
    ann = await plane.people.add("ann")
    _, gone = [await plane.people.link("ann", "teams", address) for address in ("1", "2")]
    await plane.submit("gate")
    await plane.work()
    store = plane.store
    (asked,) = await plane.approvals.list()
    request = await store.approvals.get(asked.id)
    assert request is not None
    await plane.people.unlink("ann", gone.id)
    notifier = Notifier(store, plane.directory, plane.channels, "http://localhost", lambda size: b"7" * size)
    late = SimpleNamespace(job_id=JobId(new_id()), tenant_id=request.tenant_id)

    answer = await notifier._deliver(Errand(late, request, ann.id, "remind"), gone)  # type: ignore[arg-type]
    await plane.work()
    await plane.approvals.approve(request.id, by="ann")
    await plane.work()

    assert answer["sent"] is False
    assert sorted(teams.edited) == ["1", "2"]


async def test_no_token_is_made_for_an_address_that_was_unlinked(desk: Desk) -> None:
    ann = await desk.user("ann", "approver")
    request = await desk.asked(ann)

    assert not await desk.approvals.put_token(request.id, ann.id, "telegram", "42", token().hash)
    await desk.link(ann, "telegram", "42")
    assert await desk.approvals.put_token(request.id, ann.id, "telegram", "42", token().hash)


# -- schedules -----------------------------------------------------------------------------------


async def test_removing_a_schedule_keeps_its_ledger_and_revokes_a_grant_that_served_only_it(plane: TestPlane) -> None:
    reporting(plane)
    schedule = await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    await plane.schedules.trigger("hourly")
    await settle(plane)
    before = await plane.schedules.slots("hourly")

    removed = await plane.schedules.remove("hourly", actor="ann")

    assert await plane.schedules.slots(schedule.id) == before
    assert [slot.status for slot in before] == ["success"]
    assert (removed.removed_by, removed.enabled, removed.next_run_at) == ("ann", False, None)
    grant = await plane.grants.get(schedule.grant_id)
    assert (grant.revoked_at is not None, grant.revoked_by) == (True, "ann")
    assert await plane.schedules.list() == []
    again = await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    assert again.id != schedule.id
    assert await plane.schedules.slots("hourly") == []


async def test_a_grant_that_served_others_too_is_kept(plane: TestPlane) -> None:
    reporting(plane)
    shared, used = [await plane.grants.add(["agent:run:report"]) for _ in range(2)]
    for name, grant in (("one", shared), ("two", shared), ("three", used)):
        await plane.schedules.add(name, "agent:report", "0 * * * *", grant=grant.id)
    await start_run(plane.store, plane.directory, plane.clock, plane._ids, RunWish("agent:report", "mine", used.id, {}))

    for name in ("one", "three"):
        await plane.schedules.remove(name)

    assert [(await plane.grants.get(grant.id)).revoked_at for grant in (shared, used)] == [None, None]
    await plane.schedules.remove("two")
    assert (await plane.grants.get(shared.id)).revoked_at is not None


async def test_a_run_that_was_started_goes_on_when_its_schedule_is_removed_and_its_slot_follows_it(plane: TestPlane) -> None:
    _, free = slow(plane)
    schedule = await plane.schedules.add("hourly", "agent:slow", "0 * * * *")
    await plane.schedules.trigger("hourly")
    await settle(plane)
    await plane.schedules.trigger("hourly")

    await plane.schedules.remove("hourly")
    during = sorted((slot.status, slot.reason) for slot in await plane.schedules.slots(schedule.id))
    free.set()
    await pass_time(plane, timedelta(minutes=2), timedelta(seconds=40))

    assert during == [("running", None), ("skipped", "removed")]
    assert sorted(slot.status for slot in await plane.schedules.slots(schedule.id)) == ["skipped", "success"]
