"""Runs over HTTP: those that are open, and one by one."""

from __future__ import annotations

import asyncio

import pytest
from httpx import AsyncClient

from cortex_plane import Context
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio


async def test_open_runs_are_listed_and_found_by_their_id_alone(api: Api, admin: AsyncClient) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @api.plane.agent("wait")
    async def wait(ctx: Context) -> None:
        begun.set()
        await go_on.wait()

    job_id = await api.submit("wait")
    working = asyncio.create_task(api.plane.work())
    await begun.wait()

    [run] = (await admin.get("/runs")).json()["items"]
    alone = await admin.get(f"/runs/{run['id']}")
    await api.tenant("other")
    neighbour = await api.client("admin", tenant="other")
    hidden = await neighbour.get(f"/runs/{run['id']}")
    go_on.set()
    await working

    assert (run["job_id"], run["status"]) == (job_id, "RUNNING")
    assert alone.json() == run
    assert hidden.status_code == 404
    assert (await admin.get("/runs")).json()["items"] == []


async def test_a_run_that_has_ended_is_found_by_its_job(api: Api, admin: AsyncClient) -> None:
    job_id = await api.submit()
    await api.plane.work()
    [run] = (await admin.get(f"/jobs/{job_id}/runs")).json()

    alone = await admin.get(f"/runs/{run['id']}")
    by_job = await admin.get(f"/runs/{run['id']}", params={"job": job_id})
    other = await admin.get(f"/runs/{job_id}", params={"job": job_id})

    assert (alone.status_code, alone.json()["type"]) == (404, "/problems/run-not-found")
    assert "?job=" in alone.json()["detail"]
    assert by_job.json() == run
    assert other.status_code == 404
