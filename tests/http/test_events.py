"""Following a job by server-sent events, and going on where one was cut off."""

from __future__ import annotations

import json
from typing import Any

import pytest
from httpx import AsyncClient

from tests.http.conftest import Api

pytestmark = pytest.mark.anyio


def events(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "event" in fields:
            found.append({"id": fields["id"], "event": fields["event"], "data": json.loads(fields["data"])})
    return found


async def test_a_job_is_told_from_its_beginning_to_its_end(api: Api, admin: AsyncClient) -> None:
    job_id = await api.submit(word="hi")
    await api.plane.work()
    await api.plane.clock.advance(minutes=1)

    answer = await admin.get(f"/jobs/{job_id}/events")

    assert answer.headers["content-type"].startswith("text/event-stream")
    told = events(answer.text)
    assert [one["data"]["status"] for one in told if one["event"] == "state"] == ["PENDING", "RUNNING", "COMPLETED"]
    assert (told[-1]["event"], told[-1]["data"]["output"]) == ("ended", "hi")


async def test_who_was_cut_off_is_told_only_what_came_later(api: Api, admin: AsyncClient) -> None:
    job_id = await api.submit()
    await api.plane.work()
    await api.plane.clock.advance(minutes=1)
    everything = events((await admin.get(f"/jobs/{job_id}/events")).text)

    rest = events((await admin.get(f"/jobs/{job_id}/events", headers={"Last-Event-ID": everything[1]["id"]})).text)

    assert rest == everything[2:]


async def test_a_wrong_position_is_refused(api: Api, admin: AsyncClient) -> None:
    job_id = await api.submit()

    answer = await admin.get(f"/jobs/{job_id}/events", headers={"Last-Event-ID": "yesterday"})

    assert answer.status_code == 422
