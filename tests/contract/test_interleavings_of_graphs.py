"""When the state of a graph and the end of its run meet: each order is forced with explicit transactions on real connections."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.errors import LeaseLost
from cortex_plane.graphs.model import Holder
from cortex_plane.jobs.outcomes import Done
from tests.contract.sessions import Four
from tests.contract.support import BOOM, Scene, ended
from tests.contract.test_graph_checkpoints import checkpoint

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url


async def test_a_run_does_not_end_between_the_look_at_it_and_what_is_written_for_it(scene: Scene, four: Four) -> None:
    a, b, *_ = four
    claimed = await scene.running()

    await a.begin()
    assert await a.read("graphs/hold", job_id=claimed.job_id, run_id=claimed.run_id)
    ending = asyncio.create_task(b.finish(ended(claimed, Done("1"))))
    await b.waits(ending)
    await a.commit()

    assert await ending == {claimed.run_id}


async def test_what_waited_for_the_end_of_its_run_is_refused(scene: Scene, four: Four) -> None:
    a, b, *_ = four
    claimed = await scene.running()

    await a.begin()
    assert await a.finish(ended(claimed, BOOM))
    looking = asyncio.create_task(b.read("graphs/hold", job_id=claimed.job_id, run_id=claimed.run_id))
    await b.waits(looking)
    await a.commit()

    assert await looking == []
    with pytest.raises(LeaseLost):
        await scene.store.graphs.save([checkpoint(claimed.job_id)], [], Holder(claimed.job_id, claimed.run_id))
