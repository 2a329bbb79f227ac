"""Budgets: what they refuse, what they pause, and how it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from cortex_plane.agents.directory import Directory
from cortex_plane.audit.model import AuditEntry
from cortex_plane.costs.model import BY_BUDGET
from cortex_plane.costs.service import remove_budget, set_budget
from cortex_plane.errors import BudgetExhausted, BudgetNotFound, Denied, InvalidInput, TenantNotFound, UnknownAgent
from cortex_plane.ids import new_id
from cortex_plane.jobs.changes import retry_job
from cortex_plane.jobs.fields import Submission
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, INTERNAL_QUEUE, JobId, TenantId
from cortex_plane.jobs.outcomes import Done, Interrupted
from cortex_plane.jobs.submission import submit_jobs
from cortex_plane.queues import controls
from cortex_plane.queues.model import Control, OnExhausted, Scope
from tests.contract.support import FATAL, Raw, Scene, ended

pytestmark = pytest.mark.anyio


async def spend(scene: Scene, cents: int, job_type: str = "echo", tenant_id: TenantId = DEFAULT_TENANT_ID) -> None:
    """By raw strength: what is paused would not be claimed."""
    before = await scene.store.costs.totals(tenant_id=tenant_id, job_type=job_type)
    job_id = await scene.submit(job_type, tenant_id=tenant_id, queue="spending")
    [claimed] = await scene.claim(await scene.worker(), 1, ("spending",), (job_type,))
    assert claimed.job_id == job_id
    await scene.store.queue.finish([ended(claimed, Done("1"))._replace(cost_cents=cents)], "test")
    after = await scene.store.costs.totals(tenant_id=tenant_id, job_type=job_type)
    assert sum(total.cents for total in after) - sum(total.cents for total in before) == cents


async def budget(
    scene: Scene, cents: int, on_exhausted: OnExhausted, agent: str | None = None, tenant: str | None = None
) -> None:
    scope = Scope.AGENT if agent else Scope.TENANT
    directory = Directory(scene.store)
    await set_budget(scene.store, directory, scope, agent or tenant or "", cents, on_exhausted, actor="ada", reason="test")


async def submit(scene: Scene, *submissions: Submission, directory: Directory | None = None) -> list[JobId]:
    return await submit_jobs(scene.store, directory or Directory(scene.store), new_id, submissions)


async def control(scene: Scene, scope: Scope, name: str) -> Control:
    return await scene.store.controls.get(scope, name)


async def audited(scene: Scene, object_id: str, action: str) -> Sequence[AuditEntry]:
    return [record.entry for record in await scene.store.audit.list(object_id) if record.entry.action == action]


# -- refuse --------------------------------------------------------------------------------------


async def test_a_spent_budget_refuses_new_jobs_and_says_what_to_do(scene: Scene) -> None:
    await scene.agent()
    await budget(scene, 100, "refuse", agent="echo")
    await spend(scene, 99)
    await submit(scene, Submission("echo"))
    await spend(scene, 1)

    with pytest.raises(BudgetExhausted) as refused:
        await submit(scene, Submission("echo"))

    assert isinstance(refused.value, Denied)
    assert str(refused.value) == (
        'Agent "echo" has spent 100 of its budget of 100 cents, so new jobs are rejected; waiting jobs still run. '
        "To raise the budget: cortex budgets set CENTS --agent echo"
    )


async def test_jobs_that_wait_already_go_on(scene: Scene) -> None:
    waiting = await scene.submit()
    await spend(scene, 100)
    await budget(scene, 100, "refuse", agent="echo")

    assert [one.job_id for one in await scene.claim(await scene.worker())] == [waiting]


async def test_of_a_batch_all_are_taken_or_none(scene: Scene) -> None:
    await scene.agent("other")
    await scene.agent()
    await budget(scene, 0, "refuse", agent="echo")

    with pytest.raises(BudgetExhausted):
        await submit(scene, Submission("other"), Submission("echo"))

    assert await scene.store.jobs.list() == []
    assert len(await submit(scene, Submission("other"))) == 1


async def test_a_tenant_that_has_spent_its_budget_is_refused_under_its_name(scene: Scene) -> None:
    acme = await scene.tenant("acme & sons")
    await spend(scene, 60, "echo", acme)
    await spend(scene, 60, "other", acme)
    await budget(scene, 100, "refuse", tenant="acme & sons")

    with pytest.raises(BudgetExhausted, match=r"Tenant \"acme & sons\" has spent 120 of .* --tenant 'acme & sons'"):
        await submit(scene, Submission("echo", tenant="acme & sons"))

    assert len(await submit(scene, Submission("echo"))) == 1


@pytest.mark.parametrize("scope", [Scope.AGENT, Scope.TENANT])
async def test_an_operators_retry_is_refused_as_a_submission_is(scene: Scene, scope: Scope) -> None:
    acme = await scene.tenant("acme")
    claimed = await scene.running(tenant_id=acme)
    await scene.store.queue.finish([ended(claimed, FATAL)._replace(cost_cents=100)], "test")
    directory = Directory(scene.store)
    await set_budget(scene.store, directory, scope, "echo" if scope is Scope.AGENT else "acme", 100)
    with pytest.raises(BudgetExhausted) as submission:
        await submit(scene, Submission("echo", tenant="acme"))

    with pytest.raises(BudgetExhausted) as retry:
        await retry_job(scene.store, new_id, claimed.job_id)

    assert str(retry.value) == str(submission.value)
    assert (await scene.job(claimed.job_id)).retried_as is None
    await set_budget(scene.store, directory, scope, "echo" if scope is Scope.AGENT else "acme", 101)
    assert await retry_job(scene.store, new_id, claimed.job_id)


async def test_a_budget_that_pauses_does_not_refuse_a_retry(scene: Scene) -> None:
    claimed = await scene.running()
    await scene.store.queue.finish([ended(claimed, FATAL)._replace(cost_cents=100)], "test")
    await budget(scene, 100, "pause", agent="echo")

    assert await retry_job(scene.store, new_id, claimed.job_id)


async def test_the_planes_own_work_is_retried_whatever_its_tenant_has_spent(scene: Scene) -> None:
    await spend(scene, 100)
    await scene.agent("cortex.echo")
    own = await scene.submit("cortex.echo", queue=INTERNAL_QUEUE)
    await scene.store.jobs.cancel(own, None, None)
    await budget(scene, 100, "refuse", tenant="default")

    assert await retry_job(scene.store, new_id, own)


async def test_a_higher_budget_or_none_takes_jobs_again(scene: Scene) -> None:
    await scene.agent()
    directory = Directory(scene.store)
    await set_budget(scene.store, directory, Scope.AGENT, "echo", 0)
    with pytest.raises(BudgetExhausted):
        await submit(scene, Submission("echo"), directory=directory)

    await set_budget(scene.store, directory, Scope.AGENT, "echo", 1)
    assert await submit(scene, Submission("echo"), directory=directory)
    await set_budget(scene.store, directory, Scope.AGENT, "echo", 0)
    await remove_budget(scene.store, directory, Scope.AGENT, "echo")

    assert await submit(scene, Submission("echo"), directory=directory)


async def test_without_budgets_a_submission_asks_nothing_more(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """That there are none is remembered for a second; this directory has asked just now."""
    await scene.agent()
    directory = Directory(scene.store)
    await submit(scene, Submission("echo"), directory=directory)
    asked: list[str] = []
    database = scene.store.jobs._database
    read = database.read

    async def counted(name: str, /, **values: object) -> object:
        asked.append(name)
        return await read(name, **values)

    monkeypatch.setattr(database, "read", counted)
    await submit(scene, Submission("echo"), Submission("echo"), directory=directory)

    assert asked == []


# -- pause ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [Scope.AGENT, Scope.TENANT])
async def test_a_spent_budget_pauses_once_and_says_why(scene: Scene, scope: Scope) -> None:
    await scene.agent()
    name = "echo" if scope is Scope.AGENT else DEFAULT_TENANT_ID
    await budget(scene, 100, "pause", **({"agent": "echo"} if scope is Scope.AGENT else {"tenant": "default"}))
    await spend(scene, 99)
    assert not (await control(scene, scope, name)).paused
    claimed = [await scene.running(), await scene.running()]
    for one in claimed:
        await scene.store.queue.finish([ended(one, Done("1"))._replace(cost_cents=20)], "test")

    found = await control(scene, scope, name)
    assert (found.paused, found.paused_by, found.pause_reason) == (True, BY_BUDGET, "The budget is spent: 119 of 100 cents.")
    assert (found.paused_at, found.budget_cents) == (scene.now, 100)
    [entry] = await audited(scene, name, "BUDGET_EXHAUSTED")
    assert (entry.actor, entry.object_type, entry.reason) == ("budget", scope, "The budget is spent: 119 of 100 cents.")
    assert entry.details == {"spent_cents": 119, "budget_cents": 100}
    assert entry.tenant_id == (DEFAULT_TENANT_ID if scope is Scope.TENANT else None)


async def test_a_paused_agent_waits_while_others_go_on(scene: Scene) -> None:
    await scene.submit("other")
    await scene.submit()
    await budget(scene, 10, "pause", agent="echo")
    await spend(scene, 10)

    claimed = await scene.claim(await scene.worker(), job_types=("echo", "other"))

    assert [one.job_type for one in claimed] == ["other"]


async def test_a_paused_tenant_waits_in_lanes_of_its_own_while_others_go_on(scene: Scene, raw: Raw) -> None:
    acme = await scene.tenant("acme")
    await budget(scene, 10, "pause", tenant="acme")
    for _ in range(30):
        await scene.submit(tenant_id=acme)
    others = [await scene.submit() for _ in range(3)]
    await spend(scene, 10, tenant_id=acme)
    while await scene.store.controls.move_lanes():
        pass
    in_common = await raw(f"select count(*) from cortex.queue_entry where tenant_id = '{acme}' and not by_tenant")

    worker = await scene.worker()
    claimed = await scene.claim(worker, 5)  # Fewer than wait in front of the others.

    assert in_common == [(0,)]
    assert [one.job_id for one in claimed] == others
    assert await scene.submit(tenant_id=acme)
    assert await scene.claim(worker, 5) == []


async def test_what_goes_back_to_the_queue_with_the_last_cent_waits_too(scene: Scene) -> None:
    await scene.agent()
    await budget(scene, 10, "pause", tenant="default")
    claimed = await scene.running()

    await scene.store.queue.finish([ended(claimed, Interrupted())._replace(cost_cents=10)], "test")

    assert await scene.claim(await scene.worker()) == []


async def test_a_resumed_agent_is_paused_again_by_the_next_cost(scene: Scene) -> None:
    await scene.agent()
    await budget(scene, 10, "pause", agent="echo")
    await spend(scene, 10)
    await controls.resume(scene.store, Scope.AGENT, "echo", actor="ada", reason="go on")
    await spend(scene, 1)

    assert (await control(scene, Scope.AGENT, "echo")).pause_reason == "The budget is spent: 11 of 10 cents."
    assert len(await audited(scene, "echo", "BUDGET_EXHAUSTED")) == 2


async def test_a_higher_budget_ends_the_pause_that_the_lower_one_made(scene: Scene) -> None:
    await scene.agent()
    await budget(scene, 10, "pause", agent="echo")
    await spend(scene, 10)

    await budget(scene, 20, "pause", agent="echo")

    assert not (await control(scene, Scope.AGENT, "echo")).paused
    await spend(scene, 10)
    assert (await control(scene, Scope.AGENT, "echo")).paused


async def test_removing_a_budget_ends_its_pause_and_nobody_elses(scene: Scene) -> None:
    await scene.agent()
    directory = Directory(scene.store)
    await budget(scene, 10, "pause", agent="echo")
    await spend(scene, 10)
    await remove_budget(scene.store, directory, Scope.AGENT, "echo", actor="ada")
    assert await control(scene, Scope.AGENT, "echo") == Control(Scope.AGENT, "echo")

    await controls.pause(scene.store, Scope.AGENT, "echo", actor="ada", reason="holidays")
    await budget(scene, 5, "pause", agent="echo")
    await remove_budget(scene.store, directory, Scope.AGENT, "echo")

    assert (await control(scene, Scope.AGENT, "echo")).pause_reason == "holidays"


async def test_a_budget_that_is_spent_when_it_is_set_pauses_at_once(scene: Scene) -> None:
    await spend(scene, 10)

    await budget(scene, 10, "pause", agent="echo")

    assert (await control(scene, Scope.AGENT, "echo")).paused_by == BY_BUDGET


async def test_costs_of_several_agents_at_once_find_the_tenants_budget_spent(scene: Scene) -> None:
    """Each sees only what was committed before it; the last to come must see them all."""
    agents = [f"agent-{number}" for number in range(8)]
    for job_type in agents:
        await scene.submit(job_type)
    await budget(scene, 80, "pause", tenant="default")
    claimed = await scene.claim(await scene.worker(), 8, job_types=agents)
    assert len(claimed) == 8

    await asyncio.gather(*(scene.store.queue.finish([ended(one, Done("1"))._replace(cost_cents=10)], "test") for one in claimed))

    assert (await control(scene, Scope.TENANT, DEFAULT_TENANT_ID)).paused
    [entry] = await audited(scene, DEFAULT_TENANT_ID, "BUDGET_EXHAUSTED")
    assert entry.details == {"spent_cents": 80, "budget_cents": 80}


# -- setting -------------------------------------------------------------------------------------


async def test_a_budget_is_listed_with_what_is_spent_of_it(scene: Scene) -> None:
    await spend(scene, 30)
    await budget(scene, 100, "refuse", agent="echo")
    await budget(scene, 50, "pause", tenant="default")

    found = [(b.scope, b.label, b.cents, b.spent_cents, b.on_exhausted, b.exhausted) for b in await scene.store.costs.budgets()]

    assert found == [("agent", "echo", 100, 30, "refuse", False), ("tenant", "default", 50, 30, "pause", False)]


async def test_setting_and_removing_are_audited(scene: Scene) -> None:
    await scene.agent()
    await budget(scene, 100, "refuse", agent="echo")
    await remove_budget(scene.store, Directory(scene.store), Scope.AGENT, "echo", actor="bob", reason="enough")

    entries = [record.entry for record in await scene.store.audit.list("echo")]
    assert [(entry.action, entry.actor, entry.reason) for entry in entries] == [
        ("BUDGET_SET", "ada", "test"),
        ("BUDGET_REMOVED", "bob", "enough"),
    ]
    assert entries[0].details == {"budget_cents": 100, "on_exhausted": "refuse", "spent_cents": 0}


async def test_a_budget_keeps_what_else_is_set(scene: Scene) -> None:
    await scene.agent()
    await controls.limit(scene.store, Scope.AGENT, "echo", 3, actor=None)
    await budget(scene, 100, "refuse", agent="echo")

    assert (await control(scene, Scope.AGENT, "echo")).max_running == 3


@pytest.mark.parametrize("cents", [-1, 1.5, True, "100", None, 10**13])
async def test_a_budget_is_a_whole_number_of_cents(scene: Scene, cents: int) -> None:
    await scene.agent()

    with pytest.raises(InvalidInput, match="cents must be a whole number") as refused:
        await set_budget(scene.store, Directory(scene.store), Scope.AGENT, "echo", cents)

    assert refused.value.field == "cents"


async def test_what_cannot_have_a_budget_is_refused(scene: Scene) -> None:
    await scene.agent()
    directory = Directory(scene.store)
    with pytest.raises(InvalidInput, match="a queue has none"):
        await set_budget(scene.store, directory, Scope.QUEUE, "default", 1)
    with pytest.raises(InvalidInput, match="on_exhausted must be"):
        await set_budget(scene.store, directory, Scope.AGENT, "echo", 1, "stop")  # type: ignore[arg-type]
    with pytest.raises(UnknownAgent):
        await set_budget(scene.store, directory, Scope.AGENT, "nobody", 1)
    with pytest.raises(TenantNotFound):
        await set_budget(scene.store, directory, Scope.TENANT, "nobody", 1)
    with pytest.raises(BudgetNotFound, match='Agent "echo" has no budget'):
        await remove_budget(scene.store, directory, Scope.AGENT, "echo")
