"""`cortex jobs cancel`, `cortex jobs resume` and `cortex jobs retry`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cortex_plane import Context, HistoryEntry, Plane
from tests.cli.conftest import Cortex

RunIn = Callable[..., Any]


@pytest.fixture
def job_id(database_url: str, run_in: RunIn) -> str:
    async def fill(plane: Plane) -> str:
        return str((await plane.submit("greet", {"name": "Ada"}, delay=3600)).id)

    found: str = run_in(database_url, fill)
    return found


def test_a_cancelled_job_keeps_who_and_why(cortex: Cortex, database_url: str, job_id: str, run_in: RunIn) -> None:
    result = cortex("jobs", "cancel", job_id, "--reason", "wrong version", "--database-url", database_url)

    assert (result.code, result.out, result.err) == (0, f"Cancelled {job_id}\n", "")
    last: HistoryEntry = run_in(database_url, lambda plane: plane.jobs.history(job_id))[-1]
    assert (last.new_status, last.actor, last.metadata) == ("CANCELLED", "cli:ada", {"reason": "wrong version"})


def test_a_job_is_cancelled_once(cortex: Cortex, database_url: str, job_id: str) -> None:
    cortex("jobs", "cancel", job_id, "--database-url", database_url)

    result = cortex("jobs", "cancel", job_id, "--database-url", database_url)

    assert (result.code, result.out) == (4, "")
    assert result.err == f"Error: Job {job_id} is already CANCELLED. To resume it where it stopped: cortex jobs resume {job_id}\n"


def test_a_retry_is_a_new_job(cortex: Cortex, database_url: str, job_id: str) -> None:
    cortex("jobs", "cancel", job_id, "--database-url", database_url)

    result = cortex("jobs", "retry", job_id, "--database-url", database_url)

    assert (result.code, result.err) == (0, "")
    assert (
        result.shown
        == f"""\
Submitted again, as <id>
To follow it:  cortex jobs watch <id> --database-url {database_url}
"""
    )
    assert job_id not in result.out


def test_a_resumed_job_is_a_new_job_too(cortex: Cortex, database_url: str, job_id: str) -> None:
    cortex("jobs", "cancel", job_id, "--database-url", database_url)

    resumed = cortex("jobs", "resume", job_id, "--database-url", database_url)
    again = cortex("jobs", "resume", job_id, "--database-url", database_url)

    assert (resumed.code, resumed.err) == (0, "")
    assert (
        resumed.shown
        == f"""\
Resumed, as <id>
To follow it:  cortex jobs watch <id> --database-url {database_url}
"""
    )
    assert again.code == 4
    assert f"Job {job_id} already has a retry that is PENDING" in again.err


def test_a_job_that_has_not_ended_cannot_be_retried(cortex: Cortex, database_url: str, job_id: str) -> None:
    result = cortex("jobs", "retry", job_id, "--database-url", database_url)

    assert (result.code, result.out) == (4, "")
    assert result.err.startswith(f"Error: Job {job_id} is PENDING; only a finished job can be retried or resumed.")


def test_json_names_both_jobs(cortex: Cortex, database_url: str, job_id: str) -> None:
    cancelled = cortex("jobs", "cancel", job_id, "--json", "--database-url", database_url)
    retried = cortex("jobs", "retry", job_id, "--json", "--database-url", database_url)

    assert json.loads(cancelled.out) == {"id": job_id, "status": "CANCELLED", "cancel_requested_at": None}
    assert json.loads(retried.out)["retry_of"] == job_id


@pytest.mark.parametrize("command", ["cancel", "resume", "retry"])
def test_an_unknown_job_is_not_found(cortex: Cortex, database_url: str, job_id: str, command: str) -> None:
    result = cortex("jobs", command, "01234567-0000-7000-8000-000000000000", "--database-url", database_url)

    assert (result.code, result.out) == (3, "")


def test_a_held_job_says_where_it_differs_and_is_tried_again_now(cortex: Cortex, database_url: str, run_in: RunIn) -> None:
    async def work(image: str) -> str:
        return image

    async def held(plane: Plane) -> str:
        @plane.agent("release")
        async def old(ctx: Context) -> None:
            await ctx.tool("deploy", work, "image")
            await ctx.step("tell", work, "image")

        done = await old.submit()
        await plane.run_worker(until_idle=True)
        job = await plane.checkpoints.fork(done.id, "tell")
        plane.agents.clear()

        @plane.agent("release")
        async def new(ctx: Context) -> None:
            await ctx.tool("scan", work, "image")
            await ctx.tool("deploy", work, "image")

        await plane.run_worker(until_idle=True)
        return job.id

    job_id = run_in(database_url, held)
    why = cortex("jobs", "why", job_id, "--database-url", database_url)
    shown = cortex("jobs", "show", job_id, "--database-url", database_url)
    tried = cortex("jobs", "release", job_id, "--reason", "fixed a helper", "--database-url", database_url)
    twice = json.loads(cortex("jobs", "why", job_id, "--json", "--database-url", database_url).out)

    assert 'It is held at step "scan"' in " ".join(why.out.split())
    assert "held: its record does not fit the code" in shown.out
    assert (tried.code, tried.err) == (0, "")
    assert "now by: cortex jobs release" in json.dumps(twice)


def test_only_a_held_job_is_tried_again_now(cortex: Cortex, database_url: str, job_id: str) -> None:
    result = cortex("jobs", "release", job_id, "--database-url", database_url)

    assert (result.code, result.out) == (4, "")
    assert "is PENDING and is not held for changed code" in result.err
