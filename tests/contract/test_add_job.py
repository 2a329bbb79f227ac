"""`cortex.add_job(...)` gives keys and obeys budgets as any other submission does. Only PostgreSQL has it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from cortex_plane.agents.directory import Directory
from cortex_plane.clock import instant
from cortex_plane.costs.service import set_budget
from cortex_plane.errors import BudgetExhausted
from cortex_plane.ids import new_id
from cortex_plane.jobs.fields import Submission
from cortex_plane.jobs.model import JobId, KeyMode, TenantId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import JobStatus
from cortex_plane.jobs.submission import submit_jobs
from cortex_plane.queues.model import Scope
from tests.contract.sessions import Four
from tests.contract.support import Raw, Refused, Scene, ended

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url


async def add(raw: Raw, mode: KeyMode = "replace", rest: str = "") -> JobId:
    [(job_id,)] = await raw(f"select cortex.add_job('echo', job_key => 'k', key_mode => '{mode}'{rest})")
    return JobId(str(job_id))


async def spend(scene: Scene, cents: int, **fields: Any) -> None:
    claimed = await scene.running(queue="spending", **fields)
    await scene.store.queue.finish([ended(claimed, Done("1"))._replace(cost_cents=cents)], "test")


# -- keys ----------------------------------------------------------------------------------------


async def test_a_job_key_replaces_the_waiting_job_and_says_by_which(scene: Scene, raw: Raw) -> None:
    await scene.agent()
    old = await add(raw, rest=", created_by => 'billing'")
    new = await add(raw, rest=", created_by => 'billing'")

    assert [await scene.status(job) for job in (old, new)] == [JobStatus.CANCELLED, JobStatus.PENDING]
    last = (await scene.store.jobs.history(old))[-1]
    assert (last.cause, last.actor, last.metadata) == ("replace", "billing", {"reason": f"replaced by {new}"})
    assert (await scene.job(new)).job_key == "k"
    assert [one.job_id for one in await scene.claim(await scene.worker())] == [new]


async def test_it_shares_its_keys_with_every_other_submission(scene: Scene, raw: Raw) -> None:
    first = await scene.submit(job_key="k")
    second = await add(raw)
    third = await scene.submit(job_key="k")

    assert [await scene.status(job) for job in (first, second, third)] == ["CANCELLED", "CANCELLED", "PENDING"]
    assert await add(raw, "unsafe_dedupe") == third


async def test_a_job_that_runs_is_not_replaced_and_loses_the_key(scene: Scene, raw: Raw) -> None:
    running = await scene.running(job_key="k")
    new, newer = await add(raw), await add(raw)

    assert await scene.status(running.job_id) is JobStatus.RUNNING
    assert [await scene.status(job) for job in (new, newer)] == [JobStatus.CANCELLED, JobStatus.PENDING]


async def test_preserve_run_at_keeps_the_time_of_the_first(scene: Scene, raw: Raw) -> None:
    planned = scene.now + timedelta(hours=1)
    await scene.submit(job_key="k", run_at=instant(planned))
    new = await add(raw, "preserve_run_at", ", run_at => cortex.now() + interval '5 hours'")
    replaced = await add(raw, "replace", ", run_at => cortex.now() + interval '9 hours'")

    assert (await scene.job(new)).run_at == planned
    assert (await scene.job(replaced)).run_at == scene.now + timedelta(hours=9)


async def test_unsafe_dedupe_answers_with_the_job_that_is_there_until_it_ends(scene: Scene, raw: Raw) -> None:
    await scene.agent()
    first = await add(raw, "unsafe_dedupe")
    [claimed] = await scene.claim(await scene.worker())
    assert await add(raw, "unsafe_dedupe") == first

    await scene.finish(claimed, Done("1"))
    assert await add(raw, "unsafe_dedupe") != first
    assert await raw("select count(*) from cortex.job") == [(2,)]


async def test_keys_of_tenants_do_not_meet(scene: Scene, raw: Raw) -> None:
    await scene.agent()
    await scene.tenant("acme")
    mine, theirs = await add(raw), await add(raw, rest=", tenant => 'acme'")

    assert [await scene.status(job) for job in (mine, theirs)] == [JobStatus.PENDING] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("job_key => 'k', key_mode => 'reuse'", "key_mode must be one of replace, preserve_run_at, unsafe_dedupe"),
        ("job_key => 'k', key_mode => null", "key_mode must be one of"),
        ("job_key => ' '", "job_key must be text of 1 to 200 characters"),
        ("job_key => repeat('x', 201)", "job_key must be text of 1 to 200 characters"),
    ],
)
async def test_a_key_or_mode_that_is_none_is_refused(scene: Scene, raw: Raw, arguments: str, message: str) -> None:
    await scene.agent()
    with pytest.raises(Refused, match=message):
        await raw(f"select cortex.add_job('echo', {arguments})")

    assert await scene.store.jobs.list() == []


@pytest.mark.parametrize("mode", ["replace", "unsafe_dedupe"])
async def test_many_at_once_leave_one_waiting(scene: Scene, raw: Raw, four: Four, mode: KeyMode) -> None:
    await scene.agent()
    call = f"select cortex.add_job('echo', job_key => 'k', key_mode => '{mode}')"

    async def add_often(place: int) -> list[str]:
        return [str(await four[place].connection.fetchval(call)) for _ in range(6)]

    answers = await asyncio.gather(*(add_often(place) for place in range(4)))

    waiting = [str(row[0]) for row in await raw("select id from cortex.job where status = 'PENDING'")]
    assert len(waiting) == 1
    if mode == "unsafe_dedupe":
        assert {answer for part in answers for answer in part} == set(waiting)


async def test_a_replacement_that_is_rolled_back_has_replaced_nothing(scene: Scene, raw: Raw) -> None:
    old = await scene.submit(job_key="k")
    await raw("begin")
    await add(raw)
    await raw("rollback")

    assert await scene.status(old) is JobStatus.PENDING
    assert await add(raw, "unsafe_dedupe") == old


# -- budgets -------------------------------------------------------------------------------------


async def budget_of(scene: Scene, scope: Scope, name: str) -> str:
    """Set, and how a submission from Python is refused."""
    directory = Directory(scene.store)
    await set_budget(scene.store, directory, scope, name, 1000, "refuse")
    with pytest.raises(BudgetExhausted) as refused:
        await submit_jobs(scene.store, directory, new_id, [Submission("echo", tenant="acme")])
    return str(refused.value)


@pytest.mark.parametrize(("scope", "name"), [(Scope.AGENT, "echo"), (Scope.TENANT, "acme")])
async def test_a_spent_budget_refuses_in_the_words_of_any_submission(scene: Scene, raw: Raw, scope: Scope, name: str) -> None:
    acme = await scene.tenant("acme")
    await spend(scene, 1234, tenant_id=acme)
    jobs = len(await scene.store.jobs.list())
    said = await budget_of(scene, scope, name)

    with pytest.raises(Refused) as refused:
        await raw("select cortex.add_job('echo', tenant => 'acme', job_key => 'k')")

    message, _, hint = str(refused.value).partition("\nHINT:  ")
    assert "has spent 1,234 of its budget of 1,000 cents" in message
    assert said.startswith(message)
    assert hint == f"To raise the budget: cortex budgets set CENTS --{scope} '{name}'"
    assert len(await scene.store.jobs.list()) == jobs
    assert await raw("select count(*) from cortex.job_key") == [(0,)]


async def test_a_budget_that_pauses_or_is_not_spent_refuses_nothing(scene: Scene, raw: Raw) -> None:
    acme: TenantId = await scene.tenant("acme")
    await spend(scene, 99, tenant_id=acme)
    directory = Directory(scene.store)
    await set_budget(scene.store, directory, Scope.TENANT, "acme", 100, "refuse")
    await set_budget(scene.store, directory, Scope.AGENT, "echo", 1, "pause")

    assert await raw("select cortex.add_job('echo', tenant => 'acme') is not null") == [(True,)]
    await set_budget(scene.store, directory, Scope.TENANT, "acme", 99, "refuse")
    assert await raw("select cortex.add_job('echo') is not null") == [(True,)]


async def test_the_queue_and_the_agents_of_the_plane_are_its_own(scene: Scene, raw: Raw) -> None:
    await scene.running()

    with pytest.raises(Refused, match="are the plane's own"):
        await raw("select cortex.add_job('echo', queue => 'cortex')")


@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809", "1.5e400"])
async def test_a_number_beyond_64_bits_is_refused(scene: Scene, raw: Raw, number: str) -> None:
    await scene.agent()

    with pytest.raises(Refused, match="payload holds a number beyond 64 bits"):
        await raw(f"""select cortex.add_job('echo', '{{"a": [{{"n": {number}}}]}}')""")
    assert await raw("""select cortex.add_job('echo', '{"n": [18446744073709551615, -9223372036854775808, 0.5]}') is not null""")
