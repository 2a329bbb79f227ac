"""Cancelling over HTTP: a job inside a cleanup scope is asked to end, or killed."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from cortex_plane import Context
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio


async def in_a_scope(api: Api) -> Any:
    @api.plane.agent("careful")
    async def careful(ctx: Context) -> None:
        async with ctx.cleanup():
            await ctx.sleep(86_400)

    job = await careful.submit()
    await api.plane.work()
    return job


async def test_a_job_in_a_cleanup_scope_is_asked_to_end(api: Api, admin: AsyncClient) -> None:
    job = await in_a_scope(api)

    answer = (await admin.post(f"/jobs/{job.id}/cancel", json={"reason": "enough"})).json()

    assert (answer["status"], answer["label"]) == ("RETRY", "CANCELLING")
    assert answer["cancel_requested_at"] is not None
    assert answer["status_text"].startswith("cancelling since ")
    reasons = (await admin.get(f"/jobs/{job.id}/why")).json()
    assert "cancelling" in [reason["code"] for reason in reasons]


@pytest.mark.parametrize("address", ["/jobs/{}/cancel", "/bulk/jobs/cancel"])
async def test_a_job_in_a_cleanup_scope_is_killed(api: Api, admin: AsyncClient, address: str) -> None:
    job = await in_a_scope(api)
    body: dict[str, Any] = {"mode": "kill"} if "{}" in address else {"mode": "kill", "ids": [job.id]}

    answer = await admin.post(address.format(job.id), json=body)

    assert answer.status_code == 200
    assert (await admin.get(f"/jobs/{job.id}")).json()["status"] == "CANCELLED"


async def test_a_mode_that_there_is_not_is_refused(api: Api, admin: AsyncClient) -> None:
    job = await in_a_scope(api)

    answer = await admin.post(f"/jobs/{job.id}/cancel", json={"mode": "gently"})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "mode")
