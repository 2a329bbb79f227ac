"""What raw SQL cannot do to an approval: decide it twice, undo it, decide it without its job, or change what was shown."""

from __future__ import annotations

import pytest

from cortex_plane.approvals.decisions import Decided, Withdrawn
from cortex_plane.ids import new_id
from cortex_plane.jobs.states import JobStatus
from cortex_plane.people.model import User
from tests.contract.approval_scene import Desk, token
from tests.contract.support import Raw, Refused, Scene, into

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ann(desk: Desk) -> User:
    return await desk.user("ann")


JSON_CHANGED = "'[1]'"
SHOWN = {
    "job_id": "'{id}'",
    "run_id": "'{id}'",
    "tenant_id": "'{id}'",
    "gate_key": "'other'",
    "token_hash": "'{hash}'",
    "designated": "not designated",
    "approvers": JSON_CHANGED,
    "escalate_to": JSON_CHANGED,
    "action_summary": "'Delete everything'",
    "action_details": JSON_CHANGED,
    "digest": "'{hash}'",
    "quorum": "7",
    "no_self_approval": "not no_self_approval",
    "editable": "'true'",
    "on_expiry": "'approve'",
    "default_value": JSON_CHANGED,
    "on_denial": "'raise'",
    "ttl_seconds": "7",
    "expires_at": "created_at",
    "created_at": "expires_at",
}


@pytest.mark.parametrize("column", SHOWN)
@pytest.mark.parametrize("closed", [False, True])
async def test_what_was_asked_never_changes(desk: Desk, raw: Raw, ann: User, column: str, closed: bool) -> None:
    request = await desk.asked(ann)
    if closed:
        await desk.decide(request, ann)
    before = await desk.stored(request)
    value = SHOWN[column].format(id=new_id(), hash=token().hash)

    with pytest.raises(Refused, match="never changes"):
        await raw(f"update cortex.approval_request set {column} = {value} where id = '{request.id}'")
    assert await desk.stored(request) == before


@pytest.mark.parametrize(
    "change",
    [
        "decision = 'denied'",
        "decision = null, used_at = null, outcome = null, closed_at = null, decided_by = null",
        "outcome = 'denied'",
        "decided_by = null",
        "reason = 'never said'",
        "edited_details = '{}'",
        "votes = 9",
        "escalated_at = created_at",
    ],
)
async def test_what_is_decided_stays_decided(desk: Desk, raw: Raw, ann: User, change: str) -> None:
    request = await desk.asked(ann)
    await desk.decide(request, ann)
    before = await desk.stored(request)

    with pytest.raises(Refused):
        await raw(f"update cortex.approval_request set {change} where id = '{request.id}'")
    assert await desk.stored(request) == before


@pytest.mark.parametrize("decision", ["approved", "denied"])
async def test_a_request_is_not_decided_while_its_job_waits(scene: Scene, desk: Desk, raw: Raw, ann: User, decision: str) -> None:
    request = await desk.asked(ann)

    with pytest.raises(Refused, match="closes only with its job"):
        await raw(
            f"update cortex.approval_request set decision = '{decision}', outcome = '{decision}', used_at = {raw.now}, "
            f"closed_at = {raw.now}, decided_by = '{ann.id}' where id = '{request.id}'"
        )
    with pytest.raises(Refused):
        await raw(f"update cortex.approval_request set decision = '{decision}', used_at = {raw.now} where id = '{request.id}'")
    assert isinstance(await desk.decide(request, ann), Decided)


async def test_a_request_needs_a_job_that_waits_for_it(scene: Scene, desk: Desk, raw: Raw) -> None:
    claimed = await scene.running()
    agent = await scene.agent()

    with pytest.raises(Refused, match="opens only with its job"):
        await raw(
            "insert into cortex.approval_request (id, job_id, run_id, tenant_id, gate_key, token_hash, requested_by_agent_id, "
            "designated, approvers, escalate_to, action_summary, digest, ttl_seconds, expires_at, created_at) "
            f"values ('{new_id()}', '{claimed.job_id}', '{claimed.run_id}', '{claimed.tenant_id}', 'gate', '{token().hash}', "
            f"'{agent}', {'0' if raw.kind == 'sqlite' else 'false'}, '{{}}', '{{}}', 'Deploy', '{token().hash}', 60, "
            f"{raw.now}, {raw.now})"
        )


async def test_requests_and_votes_go_only_with_their_job(desk: Desk, raw: Raw, ann: User) -> None:
    request = await desk.asked(ann)
    await desk.decide(request, ann)

    for statement in (
        "delete from cortex.approval_request",
        "delete from cortex.approval_vote",
        "update cortex.approval_vote set decision = 'denied'",
        "update cortex.approval_vote set reason = 'never said'",
    ):
        with pytest.raises(Refused):
            await raw(statement)
    assert (await desk.approvals.votes(request.id))[0].decision == "approved"


async def test_nobody_votes_twice_or_late(desk: Desk, raw: Raw, ann: User) -> None:
    ben = await desk.user("ben")
    request = await desk.asked(ann, ben, quorum=2)
    await desk.decide(request, ann)
    vote = "insert into cortex.approval_vote (approval_request_id, user_account_id, decision, door, created_at) values "

    with pytest.raises(Refused):
        await raw(f"{vote} ('{request.id}', '{ann.id}', 'approved', 'sql', {raw.now})")
    await desk.decide(request, ben, "denied")
    cem = await desk.user("cem")
    with pytest.raises(Refused):
        await raw(f"{vote} ('{request.id}', '{cem.id}', 'approved', 'sql', {raw.now})")


async def test_a_request_cannot_be_replaced(desk: Desk, raw: Raw, ann: User) -> None:
    if raw.kind != "sqlite":
        pytest.skip("Only SQLite has `replace`.")
    request = await desk.asked(ann)
    columns = [row[1] for row in await raw("pragma table_info(approval_request)")]
    copied = ", ".join("'Delete everything'" if column == "action_summary" else str(column) for column in columns)

    with pytest.raises(Refused, match="never replaced"):
        await raw(f"replace into approval_request select {copied} from approval_request where id = '{request.id}'")


@pytest.mark.parametrize("status", [JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELLED])
async def test_a_job_that_raw_sql_moves_leaves_no_open_request(
    scene: Scene, desk: Desk, raw: Raw, ann: User, status: JobStatus
) -> None:
    """Nobody has decided, so nothing counts as approved."""
    request = await desk.asked(ann)

    await raw(f"update cortex.job set {into(status, raw)} where id = '{request.job_id}'")

    stored = await desk.stored(request)
    assert (stored.outcome, stored.decision, stored.decided_by) == ("cancelled", None, None)
    assert isinstance(await desk.decide(request, ann), Withdrawn)
    assert await scene.status(request.job_id) is status
    assert len(await scene.claim(await scene.worker())) == (status is JobStatus.RUNNING)


async def test_requests_that_the_database_refuses_to_end_do_not_fill_the_batch_of_the_others(
    scene: Scene, desk: Desk, raw: Raw, ann: User
) -> None:
    refused = [await desk.asked(ann, ttl_seconds=60) for _ in range(3)]
    other = await desk.asked(ann, ttl_seconds=61)
    condition = "old.id in (" + ", ".join(f"'{one.id}'" for one in refused) + ")"
    if raw.kind == "sqlite":
        await raw(f"create trigger no before update on approval_request when {condition} begin select raise(abort, 'no'); end")
    else:
        await raw("create function no() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$")
        when = f"before update on cortex.approval_request for each row when ({condition})"
        await raw(f"create trigger no {when} execute function no()")
    await scene.clock.advance(seconds=61)

    assert await scene.store.approvals.expire(2) == 1
    assert await scene.status(other.job_id) is JobStatus.FAILED
