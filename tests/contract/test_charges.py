"""What work uses is charged to the grant that it was started under: so is what children use, and what is run again."""

from __future__ import annotations

import pytest

from cortex_plane.durable.context import Context
from cortex_plane.grants.execution import RunWish, start_run
from cortex_plane.grants.model import GrantRefused
from cortex_plane.jobs.fields import Submission
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.jobs.states import JobStatus
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


class Workshop:
    """A parent that uses 5 cents, each of two children 50, a member of a group 10; the second child may fail."""

    def __init__(self, plane: TestPlane) -> None:
        self.plane, self.breaks = plane, False

        @plane.agent("part", retry=RetryPolicy(max_retries=0))
        async def part(ctx: Context, cents: int, breaks: bool = False) -> None:
            ctx.cost(cents)
            if breaks and self.breaks:
                raise RuntimeError("broken")

        @plane.agent("whole", retry=RetryPolicy(max_retries=0))
        async def whole(ctx: Context) -> None:
            ctx.cost(5)
            await ctx.call("part", cents=50)
            await ctx.group("more", [Submission("part", {"cents": 10})])
            await ctx.call("part", cents=50, breaks=True)

    async def start(self, grant_id: str) -> str:
        plane = self.plane
        wish = RunWish("agent:whole", "the-key", grant_id, {})
        started = await start_run(self.plane.store, self.plane.directory, plane.clock, plane._ids, wish)
        await plane.work()
        return started.run_id

    async def charged(self) -> int:
        return sum(total.quantity for total in await self.plane.billing.totals() if total.unit == "cents")

    async def spent(self) -> int:
        return sum([(await self.plane.jobs.get(job.id)).cost_cents for job in await self.plane.jobs.list()])


async def test_what_children_and_groups_of_a_run_use_is_charged_to_its_grant(plane: TestPlane) -> None:
    shop = Workshop(plane)
    grant = await plane.grants.add(["agent:run:whole"])

    run_id = await shop.start(grant.id)

    assert (await shop.charged(), await shop.spent()) == (115, 115)
    assert sum(one.quantity for one in await plane.billing.receipts(run_id) if one.unit == "cents") == 115


@pytest.mark.parametrize("verb", ["resume", "retry"])
async def test_what_an_operator_has_run_again_is_charged_to_the_grant(plane: TestPlane, verb: str) -> None:
    shop = Workshop(plane)
    shop.breaks = True
    grant = await plane.grants.add(["agent:run:whole"], max_uses=1)
    run_id = await shop.start(grant.id)
    assert (await plane.jobs.get(run_id)).status is JobStatus.FAILED
    shop.breaks = False

    again = await getattr(plane.jobs, verb)(run_id, actor="operator")
    await plane.work()

    assert (await plane.jobs.get(again.id)).status is JobStatus.COMPLETED
    # The group is submitted once, whoever repeats the work.
    assert await shop.charged() == await shop.spent() == {"resume": 115 + 50, "retry": 115 + 105}[verb]
    assert (await plane.grants.get(grant.id)).uses == 1, "the same work is no new use"


async def test_the_outcome_of_a_request_is_that_of_its_run_not_of_a_child(plane: TestPlane) -> None:
    shop = Workshop(plane)
    shop.breaks = True
    grant = await plane.grants.add(["agent:run:whole"])
    run_id = await shop.start(grant.id)
    request = await plane.store.requests.by_run(run_id)  # type: ignore[arg-type]

    assert request is not None
    assert (request.outcome, request.finished_at) == (JobStatus.FAILED, (await plane.jobs.get(run_id)).finished_at)


@pytest.mark.parametrize("verb", ["resume", "retry"])
async def test_nothing_is_run_again_under_a_grant_that_was_revoked(plane: TestPlane, verb: str) -> None:
    shop = Workshop(plane)
    shop.breaks = True
    grant = await plane.grants.add(["agent:run:whole"])
    run_id = await shop.start(grant.id)
    await plane.grants.revoke(grant.id, actor="ann")
    before = await plane.jobs.list()

    with pytest.raises(GrantRefused, match="revoked by ann"):
        await getattr(plane.jobs, verb)(run_id)

    assert await plane.jobs.list() == before


async def test_the_database_itself_makes_no_successor_under_a_revoked_grant(plane: TestPlane) -> None:
    """Whoever has looked before the revocation is too late, too."""
    shop = Workshop(plane)
    shop.breaks = True
    grant = await plane.grants.add(["agent:run:whole"])
    run_id = await shop.start(grant.id)
    await plane.grants.revoke(grant.id)
    store = plane.store

    assert not await store.jobs.retry(run_id, plane._ids(), None)  # type: ignore[arg-type]
    assert not await store.jobs.resume(run_id, plane._ids(), None)  # type: ignore[arg-type]


async def test_revoking_a_grant_stops_what_was_run_again_and_children_that_outlive_their_parent(plane: TestPlane) -> None:
    shop = Workshop(plane)
    shop.breaks = True
    grant = await plane.grants.add(["agent:run:whole"])
    run_id = await shop.start(grant.id)
    again = await plane.jobs.retry(run_id)

    revoked = await plane.grants.revoke(grant.id)

    assert revoked.jobs == 1
    assert (await plane.jobs.get(again.id)).status is JobStatus.CANCELLED


async def test_a_fork_is_charged_to_nobody(plane: TestPlane) -> None:
    shop = Workshop(plane)
    grant = await plane.grants.add(["agent:run:whole"])
    run_id = await shop.start(grant.id)

    fork = await plane.checkpoints.fork(run_id, from_step="more", created_by="operator")
    await plane.work()

    assert (await plane.jobs.get(fork.id)).request_id is None
    assert await shop.charged() == 115 < await shop.spent()
