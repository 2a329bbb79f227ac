"""Jobs as busy teams leave them: all states, 200 tenants, 50 agents, 100 queues, tags. Their copies make the million."""

from __future__ import annotations

import logging
import random

import structlog

from bench.million.columns import earlier
from bench.million.load import Load
from cortex_plane import Backoff, Context, Plane, RetryPolicy, Submission
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import INTERNAL_QUEUE, JobId, RunId, WorkerId
from cortex_plane.jobs.outcomes import Chance, Failed, after_run
from cortex_plane.people.tenants import add_tenant
from cortex_plane.webhooks.model import WEBHOOK_AGENT
from cortex_plane.worker.model import NewWorker

ORIGINALS, COPIES = 1_250, 999
# Half of the jobs belong to the first of these, which are asked for by name.
BUSY_TENANTS, BUSY_QUEUES, BUSY_AGENTS = (
    ("default", "north", "south"),
    ("default", "fast", "slow", "nightly"),
    ("mail", "report", "index"),
)
TENANTS = (*BUSY_TENANTS, *(f"tenant-{number}" for number in range(200 - len(BUSY_TENANTS))))
QUEUES = (*BUSY_QUEUES, *(f"queue-{number}" for number in range(100 - len(BUSY_QUEUES))))
AGENTS = (*BUSY_AGENTS, *(f"agent-{number}" for number in range(50 - len(BUSY_AGENTS))))
TAGS = ("invoice", "customer", "weekly", "import")
RARE_TAG, RARE_TEXT = "escalated", "needle-in-a-haystack"
PERSON = "ada"
A_DAY = 86_400.0
SCHEDULES = 200

# How many of these; the rest complete.
LATER, WAITING = 200, 50
FAILED, CANCELLED, RETRIED, ASKED, RUNNING, UNDER_GRANT, GROUPS, IN_A_GROUP = 50, 20, 5, 5, 3, 30, 4, 10
COMPLETED = ORIGINALS - LATER - WAITING - FAILED - CANCELLED - RETRIED - ASKED - RUNNING - UNDER_GRANT - GROUPS * IN_A_GROUP

TABLES = (
    "job",
    "job_run",
    "job_history",
    "queue_entry",
    "job_tag",
    "job_group",
    "job_event",
    "audit_log",
    "approval_request",
    "approval_approver",
    "execution_request",
    "charge_receipt",
)


async def run_mixture(database_url: str) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    async with Plane(database_url) as plane:
        _register_agents(plane)
        await _furnish(plane)
        await _submit(plane, random.Random(1))
        plane.built_in.pop(WEBHOOK_AGENT)  # Nobody listens there.
        await plane.run_worker(QUEUES, concurrency=100, until_idle=True)
        await _fail_deliveries(plane)
        await _leave_running(plane)
        chance = random.Random(2)
        await plane.submit_many([_submission(chance, None) for _ in range(WAITING)])


MIXTURE = Load(run_mixture, TABLES, COPIES, earlier)


def _register_agents(plane: Plane) -> None:
    async def work(ctx: Context, customer: str = "", note: str = "") -> dict[str, str]:
        ctx.usage(cents=1)
        ctx.log.info("done")
        return {"customer": customer}

    for name in (*AGENTS, "unlimited"):
        plane.agent(name)(work)

    @plane.agent("fail", retry=RetryPolicy(max_retries=0))
    async def fail(ctx: Context, customer: str = "", note: str = "") -> None:
        raise ValueError(f"{customer} is not known")

    @plane.agent("retry", retry=RetryPolicy(backoff=Backoff(base_seconds=A_DAY, max_seconds=A_DAY, jitter=False)))
    async def retry(ctx: Context, customer: str = "", note: str = "") -> None:
        raise ValueError("not now")

    @plane.agent("ask")
    async def ask(ctx: Context, customer: str = "", note: str = "") -> None:
        await ctx.approval(f"Write to {customer}", approvers=PERSON, ttl=7 * A_DAY)


async def _furnish(plane: Plane) -> None:
    """What there is beside jobs."""
    await plane.directory.register()
    await plane.directory.register(plane.built_in)
    for tenant in {*TENANTS} - {"default"}:
        await add_tenant(plane.store, new_id, tenant)
    await plane.access.add_user(PERSON)
    await plane.access.give_role(PERSON, "admin")
    for number in range(50):
        await plane.people.add(f"person-{number}")
    await plane.people.add_group("office")
    await plane.people.join("office", PERSON)
    await plane.access.add_key("deploy", ["submitter"], tenant="default")
    await plane.webhooks.add("https://example.com/hook", events=["job.failed"])
    await plane.templates.save("letter", "mail", {"customer": "acme"})
    await plane.costs.set_budget(10_000_000, tenant="default")


async def add_schedules(plane: Plane) -> None:
    """Beside the million: a job waits for each of them."""
    for number in range(SCHEDULES):
        await plane.schedules.add(f"schedule-{number}", "agent:report", f"{number % 60} 3 1 1 *")
    for number in range(20):
        await plane.schedules.trigger(f"schedule-{number}")


async def _submit(plane: Plane, chance: random.Random) -> None:
    def many(count: int, agent: str | None = None, **options: object) -> list[Submission]:
        return [_submission(chance, agent, **options) for _ in range(count)]

    await plane.submit_many(
        many(COMPLETED) + many(FAILED, "fail") + many(RETRIED, "retry", tenant="default") + many(ASKED, "ask", tenant="default")
    )
    await plane.submit_many(many(LATER, delay=A_DAY))
    await plane.submit_many([Submission("mail", {"note": f"A {RARE_TEXT} indeed"}, tags=[RARE_TAG])])
    for number in range(GROUPS):
        await plane.groups.submit(many(IN_A_GROUP, tenant="default"), name=f"group-{number}", on_failure="skip")
    for handle in await plane.submit_many(many(CANCELLED)):
        await handle.cancel(reason="no longer needed")
    await plane.grants.add(["agent:run:mail"])
    for number in range(UNDER_GRANT):
        await start_under_grant(plane, number)


async def start_under_grant(plane: Plane, number: int) -> str:
    """Once for each number: who asks again is told the same run."""
    [grant] = [one for one in await plane.grants.list(limit=1_000) if one.scopes == ("agent:run:mail",)]
    execution = plane.execution
    key = f"request-{number:04}-original"
    return (await execution.start("agent:mail", key, grant.id, {"customer": "acme"}, "bench")).run_id


def _submission(chance: random.Random, agent: str | None, **options: object) -> Submission:
    customer = f"customer-{chance.randrange(1_000)}"
    values = {
        "queue": _one_of(chance, BUSY_QUEUES, QUEUES),
        "tenant": _one_of(chance, BUSY_TENANTS, TENANTS),
        "tags": chance.sample(TAGS, chance.randrange(3)),
        "priority": chance.randrange(3),
        **options,
    }
    name = agent or _one_of(chance, BUSY_AGENTS, AGENTS)
    return Submission(name, {"customer": customer, "note": "thank you " * 10}, **values)  # type: ignore[arg-type]


def _one_of(chance: random.Random, busy: tuple[str, ...], names: tuple[str, ...]) -> str:
    return chance.choice(busy if chance.random() < 1 / 2 else names)


async def _fail_deliveries(plane: Plane) -> None:
    """As it is after the last try."""
    store = plane.store
    worker_id = await _worker(plane, (INTERNAL_QUEUE,), (WEBHOOK_AGENT,))
    claimed = await store.queue.claim(worker_id, [INTERNAL_QUEUE], [WEBHOOK_AGENT], [RunId(new_id()) for _ in range(FAILED)])
    failed = Failed({"type": "Unreachable", "message": "nobody answers"}, retryable=False)
    await store.queue.finish([after_run(one, failed, RetryPolicy(), Chance(1.0, JobId(new_id()))) for one in claimed], "bench")
    await store.workers.leave(worker_id)


async def _leave_running(plane: Plane) -> None:
    store = plane.store
    worker_id = await _worker(plane, QUEUES, AGENTS)
    await plane.submit_many([Submission("report", {"customer": "acme"}) for _ in range(RUNNING)])
    claimed = await store.queue.claim(worker_id, list(QUEUES), list(AGENTS), [RunId(new_id()) for _ in range(RUNNING)])
    assert len(claimed) == RUNNING, claimed


async def _worker(plane: Plane, queues: tuple[str, ...], agents: tuple[str, ...]) -> WorkerId:
    worker_id = WorkerId(new_id())
    await plane.store.workers.register(NewWorker(worker_id, "bench", queues, agents, 100, A_DAY))
    return worker_id
