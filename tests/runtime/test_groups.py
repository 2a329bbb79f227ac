"""Groups with real workers: order, failures, callbacks, and what is refused at submission."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import apsw
import asyncpg
import pytest

from cortex_plane import Backoff, Context, InvalidInput, JobStatus, Plane, RetryPolicy
from cortex_plane.errors import UnknownAgent
from cortex_plane.groups.model import LARGEST_GROUP, GroupFinished, GroupNotFinished, GroupNotFound, GroupStatus
from cortex_plane.groups.service import GroupHandle, GroupService
from cortex_plane.ids import new_id
from cortex_plane.jobs.fields import Submission
from cortex_plane.jobs.model import TenantId
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, eventually, working

pytestmark = pytest.mark.anyio

AT_ONCE = RetryPolicy("chain", 2, Backoff(base_seconds=0, jitter=False))


class Scribe:
    """Agents that write down what happened, in order."""

    def __init__(self, plane: Plane) -> None:
        self.seen: list[str] = []
        self.told: list[dict[str, Any]] = []
        self.failures = 0

        @plane.agent("note", max_retries=0)
        async def note(ctx: Context, word: str) -> None:
            self.seen.append(f"+{word}")
            await asyncio.sleep(0)
            self.seen.append(f"-{word}")

        @plane.agent("fail", max_retries=0)
        async def fail(ctx: Context, word: str) -> None:
            self.seen.append(f"!{word}")
            raise ValueError(word)

        @plane.agent("stumble", retry=AT_ONCE)
        async def stumble(ctx: Context, word: str) -> None:
            self.seen.append(f"?{word}")
            self.failures += 1
            if self.failures < 3:
                raise ValueError(word)

        @plane.agent("tell")
        async def tell(ctx: Context, group: dict[str, Any], word: str = "") -> None:
            self.told.append({**group, "word": word})


@pytest.fixture
def scribe(plane: TestPlane) -> Scribe:
    return Scribe(plane)


def notes(*words: str) -> list[Submission]:
    return [Submission("note", {"word": word}) for word in words]


def fails(word: str) -> Submission:
    return Submission("fail", {"word": word})


TELL = Submission("tell", {"word": "over"})


async def outcome(handle: GroupHandle) -> list[JobStatus]:
    return [await job.status() for job in handle.jobs]


# -- waiting -------------------------------------------------------------------------------------


async def test_waiting_for_a_group_answers_with_the_finished_group(plane: TestPlane, scribe: Scribe) -> None:
    async with working(plane):
        handle = await GroupService(plane).submit([*notes("a", "b"), fails("c")], on_failure="continue", callback=TELL)
        group = await handle.wait(timeout=20)
        by_prefix = await GroupService(plane).wait(handle.id[:30], timeout=20)

    assert (group.id, group.status, group.tally.completed, group.tally.failed) == (handle.id, GroupStatus.FAILED, 2, 1)
    assert group.finished_at is not None
    assert group.callback_job_id is not None
    assert by_prefix == group


async def test_a_group_that_takes_longer_goes_on_and_says_how_far_it_is(plane: TestPlane, scribe: Scribe) -> None:
    handle = await GroupService(plane).submit(notes("a", "b"))

    with pytest.raises(GroupNotFinished, match=r"still PENDING after 0\.05 s: 0 of 2 members have ended") as late:
        await handle.wait(timeout=0.05)

    assert isinstance(late.value, TimeoutError)
    await plane.work()
    assert (await handle.wait(timeout=20)).status is GroupStatus.COMPLETED


async def test_waiting_for_a_group_includes_a_retry_of_a_member(plane: TestPlane, scribe: Scribe) -> None:
    handle = await GroupService(plane).submit([fails("a")])
    await plane.work()
    assert (await handle.wait(timeout=20)).status is GroupStatus.FAILED
    await plane.jobs.retry(handle.jobs[0].id)

    with pytest.raises(GroupNotFinished, match="still RUNNING"):
        await handle.wait(timeout=0.05)


async def test_nobody_waits_for_a_group_that_never_was(plane: TestPlane) -> None:
    with pytest.raises(GroupNotFound):
        await GroupService(plane).wait(new_id(), timeout=20)


# -- running -------------------------------------------------------------------------------------


async def test_a_sequential_group_runs_in_order_however_many_slots_are_free(plane: TestPlane, scribe: Scribe) -> None:
    handle = await GroupService(plane).submit(notes("a", "b", "c", "d"), mode="sequential", callback=TELL)

    await plane.work(concurrency=10)

    assert scribe.seen == ["+a", "-a", "+b", "-b", "+c", "-c", "+d", "-d"]
    assert await handle.status() is GroupStatus.COMPLETED
    assert scribe.told == [{"id": handle.id, "status": "COMPLETED", "completed": 4, "failed": 0, "cancelled": 0, "word": "over"}]


@pytest.mark.parametrize(
    ("on_failure", "statuses", "counts"),
    [
        ("stop", ["COMPLETED", "FAILED", "CANCELLED"], (1, 1, 1)),
        ("skip", ["COMPLETED", "FAILED", "CANCELLED"], (1, 1, 1)),
        ("continue", ["COMPLETED", "FAILED", "COMPLETED"], (2, 1, 0)),
    ],
)
async def test_what_a_failure_does_to_those_that_come_after(
    plane: TestPlane, scribe: Scribe, on_failure: Any, statuses: list[str], counts: tuple[int, int, int]
) -> None:
    members = [*notes("a"), fails("b"), *notes("c")]
    handle = await GroupService(plane).submit(members, mode="sequential", on_failure=on_failure, callback=TELL)

    await plane.work()

    assert await outcome(handle) == statuses
    [told] = scribe.told
    assert (told["completed"], told["failed"], told["cancelled"], told["status"]) == (*counts, "FAILED")


@pytest.mark.parametrize("on_failure", ["stop", "skip"])
async def test_of_sixty_members_whose_first_fails_no_other_begins(live_plane: Plane, on_failure: Any) -> None:
    scribe = Scribe(live_plane)
    await live_plane.submit_many([Submission("note", {"word": "warm"})] * 50)

    async with working(live_plane, concurrency=1), working(live_plane, concurrency=1, queues=["elsewhere"]):
        await eventually(lambda: _wrote(scribe, 100))  # It would claim ahead now, if it dared.
        handle = await GroupService(live_plane).submit([fails("first"), *notes(*["other"] * 59)], on_failure=on_failure)
        await handle.wait(timeout=PATIENCE_SECONDS)

    assert scribe.seen[100:] == ["!first"]
    assert await outcome(handle) == ["FAILED", *["CANCELLED"] * 59]


async def _wrote(scribe: Scribe, lines: int) -> bool:
    return len(scribe.seen) >= lines


async def test_a_failure_stops_members_that_run(live_plane: Plane) -> None:
    scribe = Scribe(live_plane)
    entered, let_fail = asyncio.Event(), asyncio.Event()

    @live_plane.agent("endless", max_retries=0)
    async def endless(ctx: Context) -> None:
        entered.set()
        await asyncio.Event().wait()

    @live_plane.agent("fails later", max_retries=0)
    async def fails_later(ctx: Context) -> None:
        await let_fail.wait()
        raise ValueError("now")

    handle = await GroupService(live_plane).submit([fails_later.submission(), endless.submission()], callback=TELL)
    async with working(live_plane):
        await entered.wait()
        let_fail.set()
        assert await eventually(lambda: _told(scribe))

    assert await outcome(handle) == [JobStatus.FAILED, JobStatus.CANCELLED]


async def _told(scribe: Scribe) -> list[dict[str, Any]]:
    return scribe.told


async def test_chained_retries_belong_to_their_member(plane: TestPlane, scribe: Scribe) -> None:
    members = [Submission("stumble", {"word": "x"}), *notes("b")]
    handle = await GroupService(plane).submit(members, mode="sequential")

    for _ in range(3):
        await plane.work()
        await plane.clock.advance(seconds=1)

    assert scribe.seen == ["?x", "?x", "?x", "+b", "-b"]
    group = await handle.group()
    assert (group.status, group.tally.members) == (GroupStatus.COMPLETED, 2)
    assert [member.retry_of is not None for member in await GroupService(plane).members(handle.id)] == [False, False, True, True]


async def test_a_hundred_members_that_end_at_once_make_one_callback(plane: TestPlane, scribe: Scribe) -> None:
    handle = await GroupService(plane).submit(notes(*map(str, range(100))), callback=TELL)

    await asyncio.gather(*(plane.work(concurrency=50) for _ in range(3)))
    await plane.work()

    assert [told["completed"] for told in scribe.told] == [100]
    assert (await handle.group()).callback_job_id is not None


async def test_a_delayed_member_delays_those_after_it(plane: TestPlane, scribe: Scribe) -> None:
    members = [*notes("a"), Submission("note", {"word": "b"}, delay=timedelta(minutes=1)), *notes("c")]
    await GroupService(plane).submit(members, mode="sequential")

    await plane.work()
    assert scribe.seen == ["+a", "-a"]
    await plane.clock.advance(minutes=2)
    await plane.work()

    assert scribe.seen == ["+a", "-a", "+b", "-b", "+c", "-c"]


async def test_a_cancelled_group_runs_nothing_more_and_is_cancelled_once(plane: TestPlane, scribe: Scribe) -> None:
    handle = await GroupService(plane).submit(notes("a", "b"))

    assert await handle.cancel("not needed") == 2
    await plane.work()

    assert (scribe.seen, await handle.status()) == ([], GroupStatus.CANCELLED)
    with pytest.raises(GroupFinished, match="already CANCELLED"):
        await handle.cancel()


async def test_a_group_joins_the_callers_transaction(plane: TestPlane, scribe: Scribe, database_url: str) -> None:
    await plane.open()  # Agents are written down before somebody else holds the file.
    if database_url.startswith("sqlite"):
        connection: Any = apsw.Connection(database_url.removeprefix("sqlite:///"))
        connection.execute("begin immediate")
        handle = await GroupService(plane).submit(notes("a"), connection=connection)
        connection.execute("rollback")
        connection.close()
    else:
        connection = await asyncpg.connect(database_url)
        await connection.execute("begin")
        handle = await GroupService(plane).submit(notes("a"), connection=connection)
        await connection.execute("rollback")
        await connection.close()

    with pytest.raises(GroupNotFound, match="cortex groups list"):
        await handle.group()


# -- refusing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "options", "field", "message"),
    [
        ([], {}, "members", "at least one member"),
        (notes("a") * (LARGEST_GROUP + 1), {}, "members", "at most 10,000 members, not 10,001"),
        ([{"agent": "note"}], {}, "members[0]", "must be a Submission"),
        (notes("a"), {"mode": "sequentiel"}, "mode", 'Did you mean "sequential"'),
        (notes("a"), {"on_failure": "halt"}, "on_failure", "stop, continue, skip"),
        (notes("a"), {"name": ""}, "name", "1 to 200 characters"),
        ([*notes("a"), Submission("note", {"word": float("nan")})], {}, "members[1].payload.word", r"members\[1\]"),
        ([*notes("a"), Submission("note", {"word": "b"}, priority=10**9)], {}, "members[1].priority", r"members\[1\]: priority"),
        ([*notes("a"), Submission("note", tenant="other")], {}, "members[1].tenant", "one tenant"),
        ([Submission("note", job_key="k", key_mode="unsafe_dedupe")], {}, "members[0].key_mode", "cannot become a member"),
        (notes("a"), {"callback": {"agent": "tell"}}, "callback", "must be a Submission"),
        (notes("a"), {"callback": Submission("tell", {"group": 1})}, "callback.payload.group", "argument group"),
        (notes("a"), {"callback": Submission("tell", queue="cortex")}, "callback.queue", "the plane's own"),
        (notes("a"), {"callback": Submission("tell", job_key="k")}, "callback.job_key", "no job_key"),
        (notes("a"), {"callback": Submission("tell", tenant="other")}, "callback.tenant", "as the members do"),
    ],
)
async def test_bad_input_names_the_field_and_stores_nothing(
    plane: TestPlane, scribe: Scribe, members: Any, options: dict[str, Any], field: str, message: str
) -> None:
    await plane.store.tenants.add(TenantId(new_id()), "other")

    with pytest.raises(InvalidInput, match=message) as refused:
        await GroupService(plane).submit(members, **options)

    assert refused.value.field == field
    assert (await plane.jobs.list(), await GroupService(plane).list()) == ([], [])


@pytest.mark.parametrize("where", ["member", "callback"])
async def test_an_unknown_agent_is_named(plane: TestPlane, scribe: Scribe, where: str) -> None:
    wrong = Submission("noet")
    members, callback = ([*notes("a"), wrong], None) if where == "member" else (notes("a"), wrong)

    with pytest.raises(UnknownAgent, match='Did you mean "note"'):
        await GroupService(plane).submit(members, callback=callback)

    assert await plane.jobs.list() == []


async def test_a_group_belongs_to_the_tenant_of_its_members(plane: TestPlane, scribe: Scribe) -> None:
    tenant_id = TenantId(new_id())
    await plane.store.tenants.add(tenant_id, "other")
    handle = await GroupService(plane).submit([Submission("note", {"word": "a"}, tenant="other")], callback=TELL)

    await plane.work()

    group = await handle.group()
    assert group.tenant_id == tenant_id
    assert (await plane.jobs.get(str(group.callback_job_id))).tenant_id == tenant_id
    assert [one.id for one in await GroupService(plane).list(tenant="other")] == [handle.id]
    assert await GroupService(plane).list() == []


async def test_a_group_is_found_by_the_first_part_of_its_id(plane: TestPlane, scribe: Scribe) -> None:
    handle = await GroupService(plane).submit(notes("a"))

    assert (await GroupService(plane).get(handle.id[:30])).id == handle.id
    with pytest.raises(GroupNotFound):
        await GroupService(plane).get("ffff")
    with pytest.raises(InvalidInput, match="not a group id"):
        await GroupService(plane).get("zz")
