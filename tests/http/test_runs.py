"""Runs over HTTP: a page at a time, narrowed, and one by one."""

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

    [run] = (await admin.get("/runs", params={"status": "RUNNING"})).json()["items"]
    alone = await admin.get(f"/runs/{run['id']}")
    await api.tenant("other")
    neighbour = await api.client("admin", tenant="other")
    hidden = await neighbour.get(f"/runs/{run['id']}")
    go_on.set()
    await working

    assert (run["job_id"], run["status"]) == (job_id, "RUNNING")
    assert alone.json() == run
    assert hidden.status_code == 404
    assert (await admin.get("/runs", params={"status": "RUNNING"})).json()["items"] == []


async def test_a_run_that_has_ended_is_found_by_its_id_its_beginning_or_its_job(api: Api, admin: AsyncClient) -> None:
    job_id = await api.submit()
    await api.plane.work()
    [run] = (await admin.get(f"/jobs/{job_id}/runs")).json()
    await api.tenant("other")
    neighbour = await api.client("admin", tenant="other")

    hidden = await neighbour.get(f"/runs/{run['id']}")
    not_a_run = await admin.get(f"/runs/{job_id}", params={"job": job_id})

    assert (await admin.get(f"/runs/{run['id']}")).json() == run
    assert (await admin.get(f"/ids/run/{run['id'][:30]}")).json() == {"id": run["id"]}
    assert (await admin.get(f"/runs/{run['id']}", params={"job": job_id})).json() == run
    assert (hidden.status_code, hidden.json()["type"]) == (404, "/problems/run-not-found")
    assert job_id not in hidden.text
    assert "?job=" in hidden.json()["detail"]
    assert (await neighbour.get(f"/ids/run/{run['id'][:30]}")).status_code == 404
    assert not_a_run.status_code == 404


async def test_runs_are_listed_page_by_page_without_those_of_others(api: Api, admin: AsyncClient) -> None:
    await api.tenant("other")
    mine = [await api.submit() for _ in range(3)]
    await api.submit(tenant="other")
    failing = await api.submit("fail")
    await api.plane.work()

    seen, cursor = [], None
    while True:
        page = (await admin.get("/runs", params={"limit": 2} | ({"cursor": cursor} if cursor else {}))).json()
        seen += page["items"]
        cursor = page["next"]
        if cursor is None:
            break

    assert {run["job_id"] for run in seen} == {*mine, failing}
    assert [run["job_id"] for run in seen] == sorted((run["job_id"] for run in seen), reverse=True)
    assert len({run["id"] for run in seen}) == len(seen)


async def test_runs_are_narrowed_by_how_they_ended_and_by_worker(api: Api, admin: AsyncClient) -> None:
    await api.submit()
    failing = await api.submit("fail")
    await api.plane.work()

    failed = (await admin.get("/runs", params={"status": "FAILED"})).json()["items"]
    same_worker = (await admin.get("/runs", params={"worker": failed[0]["worker_id"]})).json()["items"]
    unknown = await admin.get("/runs", params={"worker": "nobody"})

    assert {run["job_id"] for run in failed} == {failing}
    assert len(same_worker) >= 2
    assert unknown.json()["type"] == "/problems/worker-not-found"
    assert (await admin.get("/runs", params={"status": "failed"})).status_code == 422
    assert (await admin.get("/runs", params={"cursor": "cnVuOng"})).status_code == 400
