"""What a worker lends to the runs in it: its outbox, its clock, and the ways to other jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cortex_plane.core.jobs import JobId
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.find_approvers import find_approvers
from cortex_plane.operations.find_child import find_child
from cortex_plane.operations.submit_child import submit_child
from cortex_plane.ports.clock import Clock, NewId, Random
from cortex_plane.ports.store import Checkpoints, Store
from cortex_plane.ports.telemetry import Telemetry
from cortex_plane.runtime.durable.recorder import DEFAULT_SIZES, Fault, Services, Sizes
from cortex_plane.runtime.outbox import Outbox
from cortex_plane.runtime.reporter import Reporter


@dataclass(frozen=True, slots=True)
class Terms:
    """How the durable side of runs is to be treated."""

    files: Path = Path(".cortex")
    sizes: Sizes = DEFAULT_SIZES
    fault: Fault | None = None


DEFAULT_TERMS = Terms()


@dataclass(frozen=True, slots=True)
class Lent:
    services: Services
    checkpoints: Checkpoints
    agent_ids: Mapping[str, str]
    trace: Callable[[JobId], Awaitable[tuple[str | None, str | None]]]


@dataclass(frozen=True, slots=True)
class Lender:
    store: Store
    directory: Directory
    clock: Clock
    new_id: NewId
    random: Random
    terms: Terms
    telemetry: Telemetry | None = None

    async def lend(self, outbox: Outbox, reporter: Reporter, job_types: Iterable[str]) -> Lent:
        services = Services(
            save=outbox.save,
            submit=partial(submit_child, self.store, self.directory),
            child=partial(find_child, self.store),
            approvers=partial(find_approvers, self.store.people),
            approval=self.store.approvals.get,
            clock=self.clock,
            new_id=self.new_id,
            random=self.random,
            reporter=reporter,
            files=self.terms.files,
            sizes=self.terms.sizes,
            fault=self.terms.fault,
            telemetry=self.telemetry,
        )
        agent_ids = {job_type: (await self.directory.agent(job_type)).id for job_type in job_types}
        return Lent(services, self.store.checkpoints, agent_ids, self.store.runs.trace)
