"""The services of runs, the clock that handlers see, and the plane's own agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from cortex_plane.agents.directory import Directory
from cortex_plane.approvals.notify import notify_agent
from cortex_plane.approvals.service import find_approvers
from cortex_plane.clock import SECOND, Clock, Instant, Random
from cortex_plane.durable.checkpoint import DEFAULT_SIZES, Fault, RunServices, Sizes
from cortex_plane.durable.children import children_agent, find_child, submit_child
from cortex_plane.durable.resume import resume_child
from cortex_plane.errors import Unavailable
from cortex_plane.groups.handlers import group_agent
from cortex_plane.groups.service import submit_group
from cortex_plane.ids import NewId
from cortex_plane.queues.controls import hold_work
from cortex_plane.schedules.runner import slot_agent
from cortex_plane.telemetry import Telemetry
from cortex_plane.webhooks.delivery import webhook_agent
from cortex_plane.worker.loops import patient, patient_part

if TYPE_CHECKING:
    from cortex_plane.agents.code import AgentCode
    from cortex_plane.approvals.channels.base import Channel
    from cortex_plane.grants.execution_service import ExecutionService
    from cortex_plane.http_client import Http
    from cortex_plane.stores import Store
    from cortex_plane.worker.outbox import Outbox
    from cortex_plane.worker.reporter import Reporter


@dataclass(frozen=True, slots=True)
class RunServicesFactory:
    """Creates the services of the runs of one worker session."""

    store: Store
    directory: Directory
    clock: Clock
    new_id: NewId
    random: Random
    files: Path = Path(".cortex")
    sizes: Sizes = DEFAULT_SIZES
    fault: Fault | None = None
    telemetry: Telemetry | None = None

    async def create(
        self,
        outbox: Outbox,
        reporter: Reporter,
        clock: Clock,
        codes: Mapping[str, str],
        lease_holds: Callable[[], bool] = lambda: True,
    ) -> RunServices:
        """`clock` is the clock that handlers see, `codes` the fingerprint of the code of each agent."""
        return RunServices(
            checkpoints=patient_part(self.store.checkpoints, self.clock),
            trace=self.store.runs.trace,
            save=outbox.save,
            submit=patient(partial(submit_child, self.store, self.directory), self.clock),
            submit_group=patient(partial(submit_group, self.store, self.directory, self.new_id), self.clock),
            child=patient(partial(find_child, self.store), self.clock),
            resume_child=patient(partial(resume_child, self.store, self.new_id), self.clock),
            adopt=patient(self.store.jobs.adopt, self.clock),
            hold=patient(partial(hold_work, self.store), self.clock),
            approvers=patient(partial(find_approvers, self.store.people), self.clock),
            approval=patient(self.store.approvals.get, self.clock),
            set_cleanup=patient(self.store.jobs.set_cleanup, self.clock),
            repeats=patient(self.store.jobs.repeats, self.clock),
            store_now=patient(self.store.workers.now, self.clock),
            clock=clock,
            new_id=self.new_id,
            random=self.random,
            reporter=reporter,
            files=self.files,
            sizes=self.sizes,
            agent_ids={job_type: (await self.directory.agent(job_type)).id for job_type in codes},
            codes=codes,
            fault=self.fault,
            telemetry=self.telemetry,
            lease_holds=lease_holds,
        )


# -- store clock -------------------------------------------------------------------------------
# The clock that handlers see: the machine's, corrected by its offset from the store's.


log = structlog.get_logger()

AGREES_MICROSECONDS = SECOND
"""Clocks that are so close count as equal; so do two measurements."""


class StoreClock:
    """A correction is made when two measurements in a row agree on it: one alone may have been delayed on its way."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._seen = 0
        self._offset = 0

    def now(self) -> Instant:
        return Instant(self._clock.now() + self._offset)

    def elapsed(self) -> float:
        return self._clock.elapsed()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def begin(self) -> None:
        """Called before the first handler runs. If the database does not answer, the offset is measured later."""
        with suppress(Unavailable):
            await self.measure()
            await self.measure()

    async def measure(self) -> None:
        before = self._clock.now()
        theirs = await self._store.workers.now()
        offset = theirs - (before + self._clock.now()) // 2
        agreed = abs(offset - self._seen) < AGREES_MICROSECONDS
        self._seen = offset
        if not agreed or abs(offset - self._offset) < AGREES_MICROSECONDS:
            return
        self._offset = offset if abs(offset) >= AGREES_MICROSECONDS else 0
        log.warning("clock_is_off", seconds=round(-offset / SECOND, 1), meaning="This machine's clock; the database's decides.")


# -- built in ----------------------------------------------------------------------------------
# The plane's own agents, which every worker has: they do in jobs of their own the work that must be durable or may take long.


def built_in_agents(
    store: Store,
    directory: Directory,
    new_id: NewId,
    clock: Clock,
    http: Http,
    execution: ExecutionService,
    channels: Mapping[str, Channel],
    public_url: str,
) -> dict[str, AgentCode]:
    codes = (
        group_agent(store, new_id),
        webhook_agent(store, http, clock, channels, public_url),
        children_agent(store),
        slot_agent(store, directory, execution, clock, new_id),
        notify_agent(store, channels, public_url),
    )
    return {code.job_type: code for code in codes}
