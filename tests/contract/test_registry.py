"""Agents, tenants and the audit."""

from __future__ import annotations

import asyncio

import pytest

from cortex_plane.agents.model import AgentConfig, AgentRecord
from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, AgentId, TenantId
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from tests.contract.support import Raw, Scene

pytestmark = pytest.mark.anyio


def agent(job_type: str, **config: object) -> AgentRecord:
    return AgentRecord(AgentId(new_id()), job_type, AgentConfig(**config))  # type: ignore[arg-type]


async def test_agents_come_back_by_name_with_their_config(scene: Scene) -> None:
    policy = RetryPolicy("chain", 7, Backoff(2, 60, 3, jitter=False))
    agents = [agent("b", queue="mail", retry=policy, on_crash="fail", crash_limit=1, timeout_seconds=2.5), agent("a")]
    await scene.store.agents.register(agents)

    assert await scene.store.agents.list() == [agents[1], agents[0]]


async def test_an_agent_keeps_its_id_and_takes_the_newest_config(scene: Scene) -> None:
    first, second = agent("echo"), agent("echo", queue="mail")
    await scene.store.agents.register([first])
    await scene.store.agents.register([second])

    assert await scene.store.agents.list() == [AgentRecord(first.id, "echo", second.config)]


async def test_an_agent_that_did_not_change_is_not_written(scene: Scene, raw: Raw) -> None:
    """Every start of every worker registers; that must not cost a write each time."""
    await scene.store.agents.register([agent("echo", retry=RetryPolicy(backoff=Backoff(0.1, 1e6, 1.5)))])
    before = await raw("select updated_at from cortex.agent")
    await scene.clock.advance(seconds=1)
    await scene.store.agents.register([agent("echo", retry=RetryPolicy(backoff=Backoff(0.1, 1e6, 1.5)))])

    assert await raw("select updated_at from cortex.agent") == before


async def test_many_planes_may_register_the_same_agents_at_once(scene: Scene) -> None:
    names = [f"agent-{number}" for number in range(10)]
    orders = [names if number % 2 else names[::-1] for number in range(10)]
    await asyncio.gather(
        *(scene.store.agents.register([agent(name, crash_limit=index) for name in order]) for index, order in enumerate(orders))
    )

    assert [one.job_type for one in await scene.store.agents.list()] == names


async def test_no_agents_are_nothing(scene: Scene) -> None:
    await scene.store.agents.register([])

    assert await scene.store.agents.list() == []


async def test_the_default_tenant_is_always_there(scene: Scene) -> None:
    assert await scene.store.tenants.find("default") == DEFAULT_TENANT_ID


async def test_a_tenant_is_found_by_its_name_and_added_once(scene: Scene) -> None:
    first = TenantId(new_id())
    assert await scene.store.tenants.find("acme") is None
    await scene.store.tenants.add(first, "acme")
    await scene.store.tenants.add(TenantId(new_id()), "acme")

    assert await scene.store.tenants.find("acme") == first


async def test_the_audit_keeps_who_did_what_to_which_object(scene: Scene) -> None:
    await scene.store.audit.record(
        [
            AuditEntry("STALE_WRITE", "job", "1", actor="worker:w", details={"run_id": "r"}),
            AuditEntry("STALE_WRITE", "job", "2", actor="worker:w", reason="late", source="here", details={"a": [1, "ü"]}),
        ]
    )
    await scene.clock.advance(seconds=1)
    await scene.store.audit.record([AuditEntry("OTHER", "job", "1")])

    first, second = await scene.store.audit.list("1")
    assert (first.entry.action, first.entry.actor, first.entry.details) == ("STALE_WRITE", "worker:w", {"run_id": "r"})
    assert (second.entry.action, second.entry.actor, second.entry.details, second.at) == ("OTHER", None, {}, scene.now)
    assert [entry.entry.details for entry in await scene.store.audit.list("2")] == [{"a": [1, "ü"]}]
    assert await scene.store.audit.list("3") == []


async def test_the_audit_is_read_in_the_order_in_which_it_was_written(scene: Scene) -> None:
    """Also within one moment, and within one batch."""
    for batch in range(4):
        await scene.store.audit.record([AuditEntry("A", "job", "1", details={"n": batch * 4 + n}) for n in range(4)])

    assert [entry.entry.details["n"] for entry in await scene.store.audit.list("1")] == list(range(16))
