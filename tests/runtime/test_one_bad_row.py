"""One job whose row the database refuses or somebody has locked costs its worker nothing but that job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cortex_plane import Context, JobFailed, JobStatus, Plane
from tests.contract.support import raw_client
from tests.contract.test_repair import triggers_off
from tests.runtime.helpers import PATIENCE_SECONDS, working

pytestmark = pytest.mark.anyio

REFUSE_ON_POSTGRES = """
create function cortex.refuse_the_bad_one() returns trigger language plpgsql as $$
begin
  if new.output = '"bad"' then
    raise exception 'nobody thought of this' using errcode = '{code}';
  end if;
  return new;
end $$;
create trigger refuse_the_bad_one before update on cortex.job for each row execute function cortex.refuse_the_bad_one();
"""
REFUSE_ON_SQLITE = """
create trigger refuse_the_bad_one before update on job when new.output = '"bad"' begin select raise({how}, 'nobody'); end
"""
POSTGRES_CODES = {
    "an internal error": "XX000",
    "a program's limit": "54000",
    "a cancelled statement": "57014",
    "an unknown class": "ZZ999",
    "no rights": "42501",
    "a missing table": "42P01",
    "a trigger of somebody's own": "P0001",
}


async def refuse_the_bad_one(plane: Plane, database_url: str, postgres_code: str) -> None:
    await plane.open()  # It is open, and the tables are there.
    async with raw_client(database_url, plane.clock) as raw:  # type: ignore[arg-type]
        connection: Any = raw.connection  # type: ignore[attr-defined]
        if database_url.startswith("sqlite"):
            connection.execute(REFUSE_ON_SQLITE.format(how="abort"))
        else:
            await connection.execute(REFUSE_ON_POSTGRES.format(code=postgres_code))


@pytest.mark.parametrize("trouble", POSTGRES_CODES)
async def test_an_outcome_that_the_database_refuses_fails_its_own_job_and_no_other(
    live_plane: Plane, database_url: str, trouble: str
) -> None:
    @live_plane.agent("answer")
    async def answer(ctx: Context, what: str) -> str:
        return what

    await refuse_the_bad_one(live_plane, database_url, POSTGRES_CODES[trouble])
    bad = await answer.submit(what="bad")
    good = [await answer.submit(what="good") for _ in range(20)]
    async with working(live_plane, concurrency=5):
        assert [await job.result(timeout=PATIENCE_SECONDS) for job in good] == ["good"] * 20
        late = await answer.submit(what="late")
        assert await late.result(timeout=PATIENCE_SECONDS) == "late"
        with pytest.raises(JobFailed, match="The database refused the outcome"):
            await bad.result(timeout=PATIENCE_SECONDS)


async def test_a_locked_job_delays_neither_the_ends_of_others_nor_the_lease(live_plane: Plane, database_url: str) -> None:
    """On SQLite a lock is of the whole file, and whoever holds it holds up everybody: there nothing is to be shown."""
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite has no row locks.")
    started, go = asyncio.Event(), asyncio.Event()

    @live_plane.agent("wait")
    async def wait(ctx: Context, number: int) -> int:
        if number == 0:
            started.set()
            await ctx.step("first", asyncio.sleep, 0)
            await go.wait()
        return number

    held = await wait.submit(number=0)
    async with working(live_plane, concurrency=4), raw_client(database_url, live_plane.clock) as raw:  # type: ignore[arg-type]
        await asyncio.wait_for(started.wait(), PATIENCE_SECONDS)
        await raw("begin")
        await raw(f"select 1 from cortex.job where id = '{held.id}' for update")
        go.set()
        others = [await wait.submit(number=number) for number in range(1, 31)]
        assert [await job.result(timeout=PATIENCE_SECONDS) for job in others] == list(range(1, 31))
        await asyncio.sleep(1.5 * live_plane.settings.lease_seconds)  # Longer than a lease: its worker must still be the same.
        await raw("rollback")
        assert await held.result(timeout=PATIENCE_SECONDS) == 0

    assert [run.attempt for run in await held.runs()] == [1]


async def test_a_job_that_cannot_be_claimed_stops_no_other(live_plane: Plane, database_url: str) -> None:
    """Somebody forged the row of history that its claim would write."""

    @live_plane.agent("answer")
    async def answer(ctx: Context, number: int) -> int:
        return number

    bad, *good = [await answer.submit(number=number) for number in range(10)]
    async with raw_client(database_url, live_plane.clock) as raw:  # type: ignore[arg-type]
        now = "cortex.now()" if raw.kind == "postgres" else "0"
        async with triggers_off(raw):
            await raw(
                "insert into cortex.job_history (job_id, revision, new_status, cause, created_at) "
                f"values ('{bad.id}', 2, 'RUNNING', 'forged', {now})"
            )
    async with working(live_plane):
        assert [await job.result(timeout=PATIENCE_SECONDS) for job in good] == list(range(1, 10))
    assert await bad.status() is JobStatus.PENDING


async def test_a_number_that_no_program_can_read_costs_its_own_job_only(live_plane: Plane, database_url: str) -> None:
    @live_plane.agent("answer")
    async def answer(ctx: Context, number: int) -> int:
        return number

    bad, *good = [await answer.submit(number=number) for number in range(10)]
    async with raw_client(database_url, live_plane.clock) as raw:  # type: ignore[arg-type]
        table = "cortex.job" if raw.kind == "postgres" else "job"
        async with triggers_off(raw):
            await raw(f"""update {table} set payload = '{{"number": 1.5e400}}' where id = '{bad.id}'""")
    async with working(live_plane):
        assert [await job.result(timeout=PATIENCE_SECONDS) for job in good] == list(range(1, 10))
        with pytest.raises(JobFailed, match="number must be a whole number"):
            await bad.result(timeout=PATIENCE_SECONDS)
    assert len(await live_plane.jobs.list()) == 10
