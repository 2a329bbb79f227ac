"""Following a list of jobs by server-sent events, and going on where one was cut off."""

from __future__ import annotations

import pytest
from httpx import AsyncClient

from cortex_plane.jobs import watch_lists as module
from cortex_plane.jobs.model import DEFAULT_TENANT_ID
from cortex_plane.jobs.search import JobWish
from cortex_plane.jobs.states import JobStatus
from cortex_plane.jobs.watch_lists import Changed, Left, Listed, ListNews, ListWatch, Unchanged, follow_jobs
from tests.http.conftest import Api
from tests.http.test_events import events

pytestmark = pytest.mark.anyio


async def test_a_list_is_told_as_it_is(api: Api, admin: AsyncClient) -> None:
    first, second = await api.submit(), await api.submit("fail")

    answer = await admin.get("/jobs/events")
    of_agent = await admin.get("/jobs/events", params={"agent": "fail"})

    assert answer.headers["content-type"].startswith("text/event-stream")
    listed, *changed = events(answer.text)
    assert (listed["event"], listed["data"]["ids"]) == ("list", [second, first])
    assert [(one["event"], one["data"]["summary"]["id"]) for one in changed] == [("job", first), ("job", second)]
    assert events(of_agent.text)[0]["data"]["ids"] == [second]


async def test_who_was_cut_off_is_told_what_changed_since(api: Api, admin: AsyncClient) -> None:
    await api.submit()
    await api.plane.clock.advance(minutes=1)
    later = await api.submit()
    last = events((await admin.get("/jobs/events")).text)[-1]["id"]
    await api.plane.clock.advance(minutes=1)
    newest = await api.submit()

    by_header = events((await admin.get("/jobs/events", headers={"Last-Event-ID": last})).text)
    by_parameter = events((await admin.get("/jobs/events", params={"after": last})).text)

    assert len(by_header[0]["data"]["ids"]) == 3
    assert [one["data"]["summary"]["id"] for one in by_header[1:]] == [later, newest]
    assert by_parameter == by_header


async def test_lists_of_others_are_not_told(api: Api, admin: AsyncClient) -> None:
    await api.tenant("other")
    await api.submit(tenant="other")

    assert events((await admin.get("/jobs/events")).text)[0]["data"]["ids"] == []


async def test_a_wrong_question_is_refused_before_anything_is_told(admin: AsyncClient) -> None:
    assert (await admin.get("/jobs/events", params={"agent": "nobody"})).status_code == 404
    assert (await admin.get("/jobs/events", params={"limit": 201})).status_code == 422
    assert (await admin.get("/jobs/events", headers={"Last-Event-ID": "yesterday"})).status_code == 422


async def test_every_change_of_a_list_is_told_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHORTEST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(module, "PAUSES_FOR_A_LOOK", 0)
    lists = ListWatch(api.plane.store, api.plane.directory, api.plane.clock)
    told = follow_jobs(lists, api.plane.clock, JobWish(status=JobStatus.PENDING), tenant_id=DEFAULT_TENANT_ID, limit=2)

    waiting: list[ListNews] = []

    async def news() -> ListNews:
        if not waiting:
            waiting.extend((await anext(told))[1])
        return waiting.pop(0)

    assert await news() == Listed([])
    assert await news() == Unchanged()
    one = await api.submit()
    first = await news()
    assert isinstance(first, Changed)
    assert first.job.summary.id == one
    assert await news() == Unchanged()
    await api.plane.jobs.set_priority(one, 5)
    second = await news()
    assert isinstance(second, Changed)
    assert second.job.summary.priority == 5
    await api.plane.jobs.cancel(one)
    assert await news() == Left(one)
    three = [await api.submit() for _ in range(3)]
    pushed = [await news(), await news()]
    assert [change.job.summary.id for change in pushed if isinstance(change, Changed)] == three[1:]
    await api.submit()
    assert isinstance(await news(), Changed)
    assert await news() == Unchanged()  # The one that was pushed over the edge has not left.
