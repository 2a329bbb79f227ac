"""What we need of a database. One contract suite, run on every implementation, is the definition of this port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cortex_plane.core.agents import AgentRecord
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.budgets import Budget, CostTotal
from cortex_plane.core.checkpoints import Checkpoint, StoredCheckpoint
from cortex_plane.core.controls import Control, Scope
from cortex_plane.core.events import JobEvent, Mark, NewEvent
from cortex_plane.core.jobs import Claimed, JobId, RunId, TenantId, WorkerId
from cortex_plane.core.outcomes import BrokenJob, Transition
from cortex_plane.core.retention import Condemned, LookedAt, RetentionRule, RuleId
from cortex_plane.core.tenants import Tenant
from cortex_plane.core.webhooks import DeadLetterPage, Endpoint, EndpointId, NewEndpoint, Target
from cortex_plane.core.why import Standing
from cortex_plane.ports.access import Accounts, ApiKeys, HttpState, SignIns
from cortex_plane.ports.approvals import Approvals
from cortex_plane.ports.audit import Audit, AuditSeals
from cortex_plane.ports.gauges import Gauges
from cortex_plane.ports.grants import Billing, Grants, Requests
from cortex_plane.ports.graphs import GraphCheckpoints
from cortex_plane.ports.groups import Groups, Templates
from cortex_plane.ports.job_search import JobSearch
from cortex_plane.ports.jobs import Jobs
from cortex_plane.ports.order import Order
from cortex_plane.ports.people import People
from cortex_plane.ports.reservations import Reservations
from cortex_plane.ports.runs import Runs
from cortex_plane.ports.schedules import Schedules, Slots
from cortex_plane.ports.schema import Schema
from cortex_plane.ports.signals import Signals
from cortex_plane.ports.stats import Stats
from cortex_plane.ports.workers import Workers


class Queue(Protocol):
    async def claim(
        self, worker_id: WorkerId, queues: Sequence[str], job_types: Sequence[str], run_ids: Sequence[RunId]
    ) -> list[Claimed]:
        """The best ready jobs, in order, at most one for each run id; none for a worker that is not LIVE."""

    async def open_runs(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        """Which of these runs the worker holds: the truth after a claim whose answer was lost."""

    async def finish(self, transitions: Sequence[Transition], actor: str) -> set[RunId]:
        """Applies each transition whose run is still its job's open run; returns those runs. All in one transaction."""

    async def closed_runs(self, runs: Sequence[tuple[JobId, RunId]]) -> dict[RunId, str | None]:
        """Those of the runs that are closed, with who closed them."""

    async def broken_jobs(self, limit: int) -> list[BrokenJob]:
        """Jobs that are RUNNING though their run is closed or missing. Reads all jobs: for repairs only."""

    async def open_missing_run(self, job_id: JobId) -> None: ...

    async def promote_due(self, limit: int) -> int:
        """Makes ready what has fallen due; returns how many."""

    async def settle_stuck_keys(self) -> None:
        """Frees serial keys that nobody holds though jobs wait for them."""

    async def next_due_in(self) -> float | None:
        """Seconds until the next entry falls due, negative when it has."""

    async def standing(self, job_id: JobId) -> Standing | None:
        """Where a waiting job stands; None for one that does not wait."""

    async def running(self) -> list[tuple[str, str, TenantId, int]]:
        """How many jobs run on a worker, by queue, agent and tenant."""

    async def depths(self) -> dict[str, dict[str, int]]:
        """Entries of each queue, by state."""


class Checkpoints(Protocol):
    async def save(self, checkpoints: Sequence[Checkpoint]) -> set[RunId]:
        """Saves each one whose run is still open and whose predecessor is the checkpoint that the job has, together with its
        blobs and its cost; returns those runs. The same one a second time is saved already. All in one transaction."""

    async def load(self, job_id: JobId) -> StoredCheckpoint | None:
        """None when there is no such job, or none is written."""

    async def blobs(self, job_id: JobId, digests: Sequence[str]) -> dict[str, str]:
        """The contents that are there, by their digests."""

    async def live(self, after: JobId | None, limit: int) -> list[StoredCheckpoint]:
        """Those of jobs that have not ended, by the jobs' ids."""


class Events(Protocol):
    async def add(self, events: Sequence[NewEvent]) -> None:
        """What is told of a job that is gone is forgotten."""

    async def list(self, job_id: JobId, after: int = 0, limit: int = 1000) -> list[JobEvent]:
        """Those with a higher number, in order."""

    async def marks(self, job_ids: Sequence[JobId]) -> dict[JobId, Mark]:
        """Of those that are there: what changes when there is something new to tell of one."""


class Agents(Protocol):
    async def register(self, agents: Sequence[AgentRecord]) -> None: ...

    async def list(self) -> list[AgentRecord]: ...


class Tenants(Protocol):
    async def find(self, name: str) -> TenantId | None: ...

    async def add(self, tenant_id: TenantId, name: str, entry: AuditEntry | None = None) -> None:
        """A name that is taken is left alone, and nothing is recorded."""

    async def list(self) -> list[Tenant]:
        """By name."""

    async def count_jobs(self, tenant_id: TenantId) -> tuple[int, dict[str, int]]:
        """How many run; and how many wait, by state of their queue entries."""


class Controls(Protocol):
    async def list(self) -> list[Control]: ...

    async def get(self, scope: Scope, name: str) -> Control:
        """What is set; a control that says nothing when nothing is."""

    async def change(self, scope: Scope, name: str, change: Callable[[Control], Control], entry: AuditEntry) -> bool:
        """Applies a pure change, with its audit entry. No claim that would break the new rule begins after this returned.
        False when nothing changed; then nothing is recorded."""


class Webhooks(Protocol):
    """Endpoints. What they are told is written by the database, in the transaction that ends a job."""

    async def add(self, endpoint: NewEndpoint, entry: AuditEntry) -> None:
        """The same id a second time is the same endpoint with a new secret: nobody has been shown the first."""

    async def target(self, endpoint_id: EndpointId) -> Target | None:
        """Where and how to deliver; the only way to an endpoint's secret."""

    async def remove(self, endpoint_id: EndpointId, entry: AuditEntry) -> bool: ...

    async def enable(self, endpoint_id: EndpointId, entry: AuditEntry) -> bool:
        """False when that changed nothing; then nothing is recorded."""

    async def disable(self, endpoint_id: EndpointId, reason: str | None, entry: AuditEntry) -> bool: ...

    async def dead_letters(
        self, tenant_id: TenantId | None = None, *, before: JobId | None = None, limit: int = 50
    ) -> DeadLetterPage:
        """Deliveries that failed for good and were not sent again, newest first."""

    async def list(self, tenant_id: TenantId | None = None) -> list[Endpoint]: ...


class Costs(Protocol):
    """The totals are kept by the database, in the transaction in which a job's cost grows."""

    async def totals(self, *, tenant_id: TenantId | None = None, job_type: str | None = None) -> list[CostTotal]: ...

    async def budgets(self, wanted: Sequence[tuple[Scope, str]] | None = None) -> list[Budget]:
        """All budgets, or those of these agents (by name) and tenants (by id), with what is spent of them."""

    async def pause_if_spent(self, scope: Scope, name: str) -> None:
        """What the database does by itself when a cost uses a budget up, for one that was set too late."""


class Retention(Protocol):
    async def add(self, rule: RetentionRule, entry: AuditEntry) -> bool:
        """False when there is a rule for the same jobs already; then nothing is recorded."""

    async def remove(self, rule_id: RuleId, entry: AuditEntry) -> bool: ...

    async def window(self, after: JobId | None, limit: int) -> list[LookedAt]:
        """The next jobs after this one, oldest first."""

    async def delete(self, condemned: Sequence[Condemned], actor: str) -> int:
        """Deletes those that nothing needs any more, with an audit entry for each; returns how many."""

    async def list(self) -> list[RetentionRule]: ...


class Store(Protocol):
    """Opening creates the schema in an empty database; an older one is migrated or refused as the store documents."""

    @property
    def jobs(self) -> Jobs: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def agents(self) -> Agents: ...
    @property
    def tenants(self) -> Tenants: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def seals(self) -> AuditSeals: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    @property
    def events(self) -> Events: ...
    @property
    def order(self) -> Order: ...
    @property
    def reservations(self) -> Reservations: ...
    @property
    def controls(self) -> Controls: ...
    @property
    def webhooks(self) -> Webhooks: ...
    @property
    def costs(self) -> Costs: ...
    @property
    def retention(self) -> Retention: ...
    @property
    def templates(self) -> Templates: ...
    @property
    def graphs(self) -> GraphCheckpoints: ...
    @property
    def groups(self) -> Groups: ...
    @property
    def approvals(self) -> Approvals: ...
    @property
    def people(self) -> People: ...
    @property
    def keys(self) -> ApiKeys: ...
    @property
    def accounts(self) -> Accounts: ...
    @property
    def sign_ins(self) -> SignIns: ...
    @property
    def http(self) -> HttpState: ...
    @property
    def runs(self) -> Runs: ...
    @property
    def job_search(self) -> JobSearch: ...
    @property
    def stats(self) -> Stats: ...
    @property
    def gauges(self) -> Gauges: ...
    @property
    def grants(self) -> Grants: ...
    @property
    def requests(self) -> Requests: ...
    @property
    def billing(self) -> Billing: ...
    @property
    def schedules(self) -> Schedules: ...
    @property
    def slots(self) -> Slots: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def signals(self) -> Signals: ...
    @property
    def description(self) -> str:
        """What people are told about where the data is, without secrets."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...
