"""A store with the webhook agent, and a receiver on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cortex_plane.agents.directory import Directory
from cortex_plane.http_client import HttpxClient
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Job, JobId
from cortex_plane.jobs.outcomes import Done, Outcome
from cortex_plane.stores import Store
from cortex_plane.testing import ManualClock
from cortex_plane.webhooks.delivery import webhook_agent
from cortex_plane.webhooks.model import AddedEndpoint
from cortex_plane.webhooks.service import EndpointWish, add_endpoint
from cortex_plane.worker.services import RunServicesFactory
from cortex_plane.worker.worker import Worker, WorkerOptions
from tests.contract.support import Raw, Scene, raw_client
from tests.webhooks.receiver import Receiver, receiver


class Post(Scene):
    """The scene of the contract, with somebody who delivers."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        super().__init__(store, clock)
        self.code = webhook_agent(store, HttpxClient(), clock, timeout_seconds=2.0)

    async def listen(self, url: str, secret: str | None = None, **wish: Any) -> AddedEndpoint:
        asked = EndpointWish(url, secret=secret, **{"allow_private": True, **wish})
        return await add_endpoint(self.store, Directory(self.store), new_id, asked)

    async def ended(self, outcome: Outcome = Done('{"answer": 42}'), **fields: Any) -> JobId:  # noqa: B008
        claimed = await self.running(**fields)
        await self.finish(claimed, outcome)
        return claimed.job_id

    async def deliver(self) -> None:
        """Whatever is due now, to its end."""
        options = WorkerOptions(queues=(), internal_concurrency=5)
        services = RunServicesFactory(self.store, Directory(self.store), self.clock, new_id, lambda: 1.0)
        worker = Worker(self.store, {self.code.job_type: self.code}, options, self.clock, new_id, lambda: 1.0, services)
        await worker.run(until_idle=True)

    async def deliveries(self) -> list[Job]:
        """Oldest first."""
        found = [await self.job(one.id) for one in await self.store.jobs.list(queue="cortex")]
        return sorted(found, key=lambda job: job.position)


@pytest.fixture
def post(store: Store, clock: ManualClock) -> Post:
    return Post(store, clock)


@pytest.fixture
async def raw(store: Store, database_url: str, clock: ManualClock) -> AsyncIterator[Raw]:
    async with raw_client(database_url, clock) as client:
        yield client


@pytest.fixture
async def inbox() -> AsyncIterator[Receiver]:
    async with receiver() as made:
        yield made
