"""The jobs that are copied: finished, delayed and waiting, over a hundred queues, fifty agents and two hundred tenants."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

import structlog

from bench.million.columns import earlier
from bench.million.load import Load
from cortex_plane import Context, Plane, RetryPolicy, Submission
from cortex_plane.ids import new_id
from cortex_plane.people.tenants import add_tenant

QUEUES = tuple(f"queue-{number}" for number in range(100))
AGENTS = tuple(f"agent-{number}" for number in range(50))
TENANTS = tuple(f"tenant-{number}" for number in range(200))
TAGS = ("invoice", "customer", "weekly", "import")
A_DAY = 86_400.0

# Of each copy.
COMPLETED, FAILED, CANCELLED, ASKED, LATER, WAITING = 925, 55, 15, 5, 200, 50
ALL = COMPLETED + FAILED + CANCELLED + ASKED + LATER + WAITING

BUSY = 3
"""The queue, the agent and the tenant of this number have a twelfth of all jobs: a page of them is full without any copy."""
FRESH_WAITING, FRESH_COMPLETED, FRESH_FAILED, FRESH_ASKED = 2_000, 3_000, 520, 150
"""Jobs that both databases have: the waiting ones are claimed and moved, those that ask fill a page, the others fill the last
hour, as far as the overview shows it."""
FRESH_QUEUE = "fresh"

TABLES = ("job", "job_run", "job_history", "queue_entry", "job_tag", "approval_request", "approval_approver")


def load_of(copies: int) -> Load:
    return Load(run_originals, TABLES, copies, earlier)


async def run_originals(database_url: str) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    async with Plane(database_url) as plane:
        _register(plane)
        await plane.directory.register()
        for tenant in TENANTS:
            await add_tenant(plane.store, new_id, tenant)
        chance = random.Random(1)

        def many(count: int, agent: str | None = None, **options: object) -> list[Submission]:
            return [_submission(chance, agent, **options) for _ in range(count)]

        await plane.submit_many(many(COMPLETED) + many(FAILED, "fail") + many(ASKED, "ask"))
        for handle in await plane.submit_many(many(CANCELLED)):
            await handle.cancel()
        await plane.run_worker(QUEUES, concurrency=100, until_idle=True)
        await plane.submit_many(many(LATER, delay=A_DAY))
        await plane.submit_many(many(WAITING))


async def add_fresh(database_url: str) -> None:
    """None of them is in what is listed by queue, agent, tenant and tag."""
    chance, others = random.Random(3), [number for number in range(50) if number != BUSY]

    def one(agent: str | None, queue: str) -> Submission:
        name, tenant = agent or AGENTS[chance.choice(others)], TENANTS[chance.choice(others)]
        return Submission(name, {"customer": "fresh"}, queue=queue, tenant=tenant)

    async with Plane(database_url) as plane:
        _register(plane)
        await plane.submit_many([one(None, FRESH_QUEUE) for _ in range(FRESH_COMPLETED)])
        await plane.submit_many([one("fail", FRESH_QUEUE) for _ in range(FRESH_FAILED)])
        await plane.submit_many([one("ask", FRESH_QUEUE) for _ in range(FRESH_ASKED)])
        await plane.run_worker((FRESH_QUEUE,), concurrency=100, until_idle=True)
        await plane.submit_many([one(None, QUEUES[others[number % len(others)]]) for number in range(FRESH_WAITING)])


def _register(plane: Plane) -> None:
    async def work(ctx: Context, customer: str = "") -> dict[str, str]:
        return {"customer": customer}

    for name in AGENTS:
        plane.agent(name)(work)

    @plane.agent("fail", retry=RetryPolicy(max_retries=0))
    async def fail(ctx: Context, customer: str = "") -> None:
        raise ValueError(f"{customer} is not known")

    @plane.agent("ask")
    async def ask(ctx: Context, customer: str = "") -> None:
        await ctx.approval(f"Write to {customer}", ttl=7 * A_DAY)


def _submission(chance: random.Random, agent: str | None, **options: object) -> Submission:
    values = {
        "queue": _one_of(chance, QUEUES),
        "tenant": _one_of(chance, TENANTS),
        "tags": chance.sample(TAGS, chance.randrange(3)),
        "priority": chance.choice((0, 0, 0, 5)),
        **options,
    }
    return Submission(agent or _one_of(chance, AGENTS), {"customer": f"customer-{chance.randrange(1_000)}"}, **values)  # type: ignore[arg-type]


def _one_of(chance: random.Random, names: Sequence[str]) -> str:
    return names[BUSY] if chance.random() < 1 / 12 else chance.choice(names)
