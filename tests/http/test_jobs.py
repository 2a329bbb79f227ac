"""Jobs over HTTP: submit, look, wait, cancel, retry, move."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from httpx import AsyncClient

from cortex_plane import Context
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio


async def test_a_submitted_job_is_there_and_signed_by_who_asked(api: Api) -> None:
    client = await api.client("submitter")

    answer = await client.post("/jobs", json={"agent": "echo", "payload": {"word": "hi"}, "tags": ["a"], "priority": 3})

    assert answer.status_code == 201
    job = answer.json()
    assert answer.headers["location"] == f"/api/v1/jobs/{job['id']}"
    assert (job["status"], job["payload"], job["tags"], job["priority"]) == ("PENDING", {"word": "hi"}, ["a"], 3)
    assert job["created_by"].startswith("key:ctx_")
    assert (await client.get(f"/jobs/{job['id']}")).json() == job


async def test_a_deadline_is_a_time_or_a_length(admin: AsyncClient) -> None:
    at = "2099-01-01T00:00:00Z"
    one = (await admin.post("/jobs", json={"agent": "echo", "deadline_at": at, "run_timeout_seconds": 5})).json()
    other = (await admin.post("/jobs", json={"agent": "echo", "deadline_seconds": 60})).json()

    assert one["deadline_at"] == at
    created, deadline = (datetime.fromisoformat(other[name]) for name in ("created_at", "deadline_at"))
    assert deadline - created == timedelta(seconds=60)


async def test_a_batch_is_stored_in_its_order_or_not_at_all(api: Api, admin: AsyncClient) -> None:
    answer = await admin.post("/bulk/jobs", json={"jobs": [{"agent": "echo"}, {"agent": "fail"}]})
    bad = await admin.post("/bulk/jobs", json={"jobs": [{"agent": "echo"}, {"agent": "nobody"}]})

    assert answer.status_code == 201
    listed = (await admin.get("/jobs")).json()["items"]
    assert [job["summary"]["id"] for job in listed] == answer.json()["ids"][::-1]
    assert (bad.status_code, bad.json()["type"]) == (404, "/problems/agent-not-found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"agent": "echo", "priority": "5"}, "priority"),
        ({"agent": "echo", "priority": True}, "priority"),
        ({"agent": "echo", "priority": 1.0}, "priority"),
        ({"agent": "echo", "colour": "red"}, "colour"),
        ({"agent": 5}, "agent"),
        ({}, "agent"),
        ({"agent": "echo", "payload": [1]}, "payload"),
        ({"agent": "echo", "run_at": 5}, "run_at"),
        ({"agent": "echo", "run_at": "2030-01-01"}, "run_at"),
        ({"agent": "echo", "run_at": "2030-01-01T00:00:00"}, "run_at"),
        ({"agent": "echo", "run_at": "2030-01-01T00:00:00Z", "delay_seconds": 5}, "run_at"),
        ({"agent": "echo", "deadline_at": "2030-01-01T00:00:00Z", "deadline_seconds": 5}, "deadline_at"),
        ({"agent": "echo", "deadline_seconds": 0}, "deadline_seconds"),
        ({"agent": "echo", "run_timeout_seconds": -1}, "run_timeout_seconds"),
        ({"agent": "echo", "timeout_seconds": 5}, "timeout_seconds"),
        ({"agent": "echo", "tags": ["a", 5]}, "tags[1]"),
        ({"agent": "echo", "queue": "cortex"}, "queue"),
        ({"agent": "echo", "queue": "a\u0000b"}, "queue"),
        ({"agent": "echo", "payload": {"a": "\u0000"}}, None),
    ],
)
async def test_wrong_input_names_its_field_and_changes_nothing(
    api: Api, admin: AsyncClient, body: dict[str, Any], field: str | None
) -> None:
    answer = await admin.post("/jobs", json=body)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == "/problems/invalid-input"
    if field:
        assert [error["field"] for error in problem["errors"]] == [field]
    assert (await admin.get("/jobs")).json()["items"] == []


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"agent": NaN}', b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
async def test_a_body_that_cannot_be_read_is_a_problem_of_the_caller(admin: AsyncClient, body: bytes) -> None:
    answer = await admin.post("/jobs", content=body, headers={"content-type": "application/json"})

    assert answer.status_code in (400, 422)
    assert answer.json()["type"] in ("/problems/malformed", "/problems/invalid-input")


async def test_lists_are_filtered_by_everything_that_a_job_is_like(api: Api, admin: AsyncClient) -> None:
    one = await api.submit(word="Needle in hay")
    await api.plane.clock.advance(minutes=10)
    two = (await api.plane.submit("fail", queue="side", tags=["red", "blue"], max_retries=0)).id
    middle = "2000-01-01T00:00:00Z"
    job = await api.plane.jobs.get(two)
    middle = job.created_at.isoformat()

    async def ids(**filters: str) -> list[str]:
        answer = await admin.get("/jobs", params=filters)
        assert answer.status_code == 200, answer.text
        return [found["summary"]["id"] for found in answer.json()["items"]]

    assert await ids() == [two, one]
    assert await ids(agent="fail") == [two]
    assert await ids(queue="default") == [one]
    assert await ids(tag="blue") == [two]
    assert await ids(tag="green") == []
    assert await ids(text="needle IN") == [one]
    assert await ids(text="%") == []
    assert await ids(since=middle) == [two]
    assert await ids(until=middle) == [one]
    assert await ids(status="PENDING") == [two, one]
    assert await ids(status="FAILED") == []
    await api.plane.work(queues=["side"])
    assert await ids(status="FAILED") == [two]
    assert await ids(status="FAILED", agent="echo") == []


async def test_pages_follow_each_other_without_gap_or_repetition(api: Api, admin: AsyncClient) -> None:
    made = [await api.submit(word=str(number)) for number in range(7)]
    seen: list[str] = []
    cursor: str | None = None
    pages = 0
    while pages == 0 or cursor:
        answer = await admin.get("/jobs", params={"limit": 3, **({"cursor": cursor} if cursor else {})})
        page = answer.json()
        seen += [job["summary"]["id"] for job in page["items"]]
        cursor, pages = page["next"], pages + 1

    assert seen == made[::-1]
    assert pages == 3


async def test_the_last_page_is_known_as_such_also_when_it_is_full(api: Api, admin: AsyncClient) -> None:
    for _ in range(3):
        await api.submit()

    assert (await admin.get("/jobs", params={"limit": 3})).json()["next"] is None


@pytest.mark.parametrize("cursor", ["x", "am9iOg", "%00", "YXVkaXQ6NQ", "am9iOjEy"])
async def test_a_cursor_of_others_is_refused_by_name(admin: AsyncClient, cursor: str) -> None:
    answer = await admin.get("/jobs", params={"cursor": cursor})

    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/bad-cursor")


@pytest.mark.parametrize(
    "query", ["stauts=FAILED", "limit=0", "limit=1001", "limit=x", "status=failed", "limit=1&limit=2", "since=yesterday"]
)
async def test_a_wrong_parameter_is_refused_not_ignored(admin: AsyncClient, query: str) -> None:
    answer = await admin.get(f"/jobs?{query}")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == query.partition("=")[0]


async def test_waiting_answers_as_soon_as_the_job_has_ended(api: Api, admin: AsyncClient) -> None:
    job_id = await api.submit(word="done")

    asked = asyncio.create_task(admin.get(f"/jobs/{job_id}", params={"wait": 30}))
    await api.plane.work()
    answer = await asked

    assert (answer.json()["status"], answer.json()["output"]) == ("COMPLETED", "done")


async def test_what_is_recorded_of_a_job_can_be_read(api: Api, admin: AsyncClient) -> None:
    job_id = await api.submit("fail")
    why = (await admin.get(f"/jobs/{job_id}/why")).json()
    await api.plane.work()

    history = (await admin.get(f"/jobs/{job_id}/history")).json()
    runs = (await admin.get(f"/jobs/{job_id}/runs")).json()

    assert [reason["code"] for reason in why] == ["no_worker"]
    assert [entry["new_status"] for entry in history][:3] == ["PENDING", "RUNNING", "RETRY"]
    assert runs[0]["error"] == "no"
    assert [job["id"] for job in (await admin.get(f"/jobs/{job_id}/chain")).json()] == [job_id]
    assert (await admin.get(f"/jobs/{job_id}/checkpoint")).status_code == 404


async def test_a_job_is_cancelled_once_and_retried_as_a_new_one(api: Api, admin: AsyncClient) -> None:
    job_id = await api.submit()

    cancelled = await admin.post(f"/jobs/{job_id}/cancel", json={"reason": "not needed"})
    again = await admin.post(f"/jobs/{job_id}/cancel")
    retried = await admin.post(f"/jobs/{job_id}/retry")

    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "CANCELLED")
    assert (again.status_code, again.json()["type"]) == (409, "/problems/already-finished")
    assert (retried.status_code, retried.json()["retry_of"]) == (201, job_id)
    history = (await admin.get(f"/jobs/{job_id}/history")).json()
    assert history[-1]["metadata"] == {"reason": "not needed"}
    assert history[-1]["actor"].startswith("key:")


async def test_a_job_that_failed_is_resumed_once(api: Api, admin: AsyncClient) -> None:
    broken, calls = {"mail"}, list[str]()

    def work(name: str) -> str:
        calls.append(name)
        if name in broken:
            raise ValueError(f"no {name}")
        return name

    @api.plane.agent("shop", max_retries=0)
    async def shop(ctx: Context) -> None:
        for name in ("pay", "mail"):
            await ctx.step(name, work, name)

    job_id = await api.submit("shop")
    await api.plane.work()
    broken.clear()

    resumed = await admin.post(f"/jobs/{job_id}/resume", headers={"Idempotency-Key": "once"})
    repeated = await admin.post(f"/jobs/{job_id}/resume", headers={"Idempotency-Key": "once"})
    live = await admin.post(f"/jobs/{job_id}/resume")
    await api.plane.work()
    done = await admin.post(f"/jobs/{job_id}/resume")

    assert (resumed.status_code, resumed.json()["retry_of"]) == (201, job_id)
    assert repeated.json()["id"] == resumed.json()["id"]
    assert (live.status_code, live.json()["type"]) == (409, "/problems/still-running")
    assert resumed.json()["id"] in live.json()["detail"]
    assert (done.status_code, done.json()["type"]) == (409, "/problems/nothing-to-resume")
    assert calls == ["pay", "mail", "mail"]


async def test_an_uncertain_call_is_listed_and_settled_once(api: Api, admin: AsyncClient) -> None:
    async def refund() -> dict[str, int]:
        raise TimeoutError("no answer")

    @api.plane.agent("shop", max_retries=0)
    async def shop(ctx: Context) -> object:
        return await ctx.tool("refund", refund)

    job_id = await api.submit("shop")
    await api.plane.work()
    listed = (await admin.get(f"/jobs/{job_id}/details")).json()["uncertain"]
    body = {"call": "refund", "applied": True, "result": {"receipt": 7}}

    wrong = await admin.post(f"/jobs/{job_id}/settle", json={**body, "call": "pay"})
    incomplete = await admin.post(f"/jobs/{job_id}/settle", json={"call": "refund"})
    settled = await admin.post(f"/jobs/{job_id}/settle", json=body, headers={"Idempotency-Key": "once"})
    repeated = await admin.post(f"/jobs/{job_id}/settle", json=body, headers={"Idempotency-Key": "once"})
    await api.plane.work()
    done = (await admin.get(f"/jobs/{settled.json()['id']}")).json()

    assert [(one["call"], one["doubt"], one["caught"]) for one in listed] == [("refund", "TimeoutError: no answer", False)]
    assert (wrong.status_code, incomplete.status_code) == (422, 422)
    assert "Uncertain: refund" in wrong.json()["detail"]
    assert (settled.status_code, settled.json()["retry_of"]) == (201, job_id)
    assert repeated.json()["id"] == settled.json()["id"]
    assert (done["status"], done["output"]) == ("COMPLETED", {"receipt": 7})


async def test_a_resumption_is_refused_when_the_job_has_moved_on(api: Api, admin: AsyncClient) -> None:
    job_id = await api.submit()
    await admin.post(f"/jobs/{job_id}/cancel")

    late = await admin.post(f"/jobs/{job_id}/resume", headers={"If-Match": '"1"'})
    in_time = await admin.post(f"/jobs/{job_id}/resume", headers={"If-Match": late.headers["etag"]})

    assert (late.status_code, in_time.status_code) == (412, 201)


async def test_a_change_is_refused_when_the_job_has_moved_on(api: Api, admin: AsyncClient) -> None:
    job_id = await api.submit()
    seen = (await admin.get(f"/jobs/{job_id}")).headers["etag"]
    assert seen == '"1"'
    await admin.post(f"/jobs/{job_id}/cancel", headers={"If-Match": seen})

    late = await admin.post(f"/jobs/{job_id}/retry", headers={"If-Match": seen})
    nonsense = await admin.post(f"/jobs/{job_id}/retry", headers={"If-Match": "today"})
    in_time = await admin.post(f"/jobs/{job_id}/retry", headers={"If-Match": late.headers["etag"]})

    assert (late.status_code, late.json()["type"]) == (412, "/problems/revision-changed")
    assert nonsense.status_code == 422
    assert in_time.status_code == 201


async def test_waiting_jobs_are_moved_and_ranked(api: Api, admin: AsyncClient) -> None:
    first, second = await api.submit(), await api.submit()

    moved = await admin.post(f"/jobs/{second}/move", json={"place": "before", "anchor": first})
    ranked = await admin.put(f"/jobs/{first}/priority", json={"priority": 9})
    wrong = await admin.post(f"/jobs/{second}/move", json={"place": "before"})

    assert moved.json()["position"] < (await api.plane.jobs.get(first)).position
    assert ranked.json()["priority"] == 9
    assert wrong.status_code == 422


async def test_many_are_cancelled_and_retried_and_what_cannot_be_is_told(api: Api, admin: AsyncClient) -> None:
    ids = [await api.submit() for _ in range(3)]
    await admin.post(f"/jobs/{ids[1]}/cancel")

    outcome = (await admin.post("/bulk/jobs/cancel", json={"ids": ids, "reason": "all of them"})).json()
    retried = (await admin.post("/bulk/jobs/retry", json={"ids": ids[:2]})).json()
    resumed = (await admin.post("/bulk/jobs/resume", json={"ids": ids[1:]})).json()

    assert outcome["done"] == [ids[0], ids[2]]
    assert [(one["id"], one["problem"]["type"]) for one in outcome["refused"]] == [(ids[1], "/problems/already-finished")]
    assert len(retried["done"]) == 2
    assert retried["refused"] == []
    assert len(resumed["done"]) == 1
    assert [(one["id"], one["problem"]["type"]) for one in resumed["refused"]] == [(ids[1], "/problems/still-running")]


async def test_of_two_clients_that_saw_the_same_job_one_changes_it(api: Api, admin: AsyncClient) -> None:
    await api.submit()
    job_id = await api.submit()
    other = await api.client("operator")
    seen = {"If-Match": (await admin.get(f"/jobs/{job_id}")).headers["etag"]}

    answers = await asyncio.gather(
        admin.post(f"/jobs/{job_id}/move", json={"place": "front"}, headers=seen),
        other.put(f"/jobs/{job_id}/priority", json={"priority": 3}, headers=seen),
    )
    now = {"If-Match": (await admin.get(f"/jobs/{job_id}")).headers["etag"]}
    ends = await asyncio.gather(*(client.post(f"/jobs/{job_id}/cancel", headers=now) for client in (admin, other)))
    last = {"If-Match": (await admin.get(f"/jobs/{job_id}")).headers["etag"]}
    retries = await asyncio.gather(*(client.post(f"/jobs/{job_id}/retry", headers=last) for client in (admin, other)))

    assert sorted(answer.status_code for answer in answers) == [200, 412]
    assert sorted(answer.status_code for answer in ends) == [200, 412]
    assert min(answer.status_code for answer in retries) == 201
    assert max(answer.status_code for answer in retries) in (409, 412)
    assert now != seen
    assert (await admin.get(f"/jobs/{job_id}")).headers["etag"] == '"3r"'


@pytest.mark.parametrize(
    ("place", "anchored", "order"),
    [("front", False, "cdab"), ("back", False, "abcd"), ("before", True, "cdab"), ("after", True, "acdb")],
)
async def test_many_are_moved_and_then_stand_in_the_order_of_the_request(
    api: Api, admin: AsyncClient, place: str, anchored: bool, order: str
) -> None:
    made = {letter: await api.submit(word=letter) for letter in "abcd"}
    body = {"ids": [made["c"], made["d"]], "place": place, **({"anchor": made["a"]} if anchored else {})}

    outcome = (await admin.post("/bulk/jobs/move", json=body)).json()

    assert outcome == {"done": [made["c"], made["d"]], "refused": []}
    positions = {letter: (await api.plane.jobs.get(job_id)).position for letter, job_id in made.items()}
    assert "".join(sorted(made, key=lambda letter: positions[letter])) == order


async def test_of_many_what_cannot_be_moved_is_told_and_the_others_close_ranks(api: Api, admin: AsyncClient) -> None:
    made = [await api.submit() for _ in range(4)]
    await api.plane.jobs.cancel(made[2])

    outcome = (await admin.post("/bulk/jobs/move", json={"ids": [made[3], made[2], made[1]], "place": "front"})).json()

    assert outcome["done"] == [made[3], made[1]]
    assert [(one["id"], one["problem"]["type"]) for one in outcome["refused"]] == [(made[2], "/problems/job-not-queued")]
    positions = [(await api.plane.jobs.get(made[place])).position for place in (3, 1, 0)]
    assert positions == sorted(positions)


async def test_a_held_job_is_released_and_no_other(api: Api, admin: AsyncClient) -> None:
    async def work() -> None:
        pass

    plane = api.plane

    @plane.agent("release-bot")
    async def old(ctx: Context) -> None:
        await ctx.tool("deploy", work)
        await ctx.sleep(60)

    job = await old.submit()
    await plane.work()
    plane.agents.pop("release-bot")

    @plane.agent("release-bot")
    async def new(ctx: Context) -> None:
        await ctx.tool("scan", work)
        await ctx.tool("deploy", work)

    await plane.clock.advance(seconds=61)
    await plane.work()
    held = (await admin.get(f"/jobs/{job.id}")).json()
    why = (await admin.get(f"/jobs/{job.id}/why")).json()
    viewer = await api.client("viewer")

    forbidden = await viewer.post(f"/jobs/{job.id}/release")
    stale = await admin.post(f"/jobs/{job.id}/release", headers={"If-Match": '"1"'})
    released = await admin.post(f"/jobs/{job.id}/release", json={"reason": "a helper was mended"})
    await plane.work()
    runs = await plane.jobs.runs(job.id)
    await plane.jobs.cancel(job.id)
    ended = await admin.post(f"/jobs/{job.id}/release")

    assert (held["status"], held["wait_reason"], held["error"]["step"]) == ("RETRY", "code_changed", "scan")
    assert "code_changed" in str(why)
    assert (forbidden.status_code, stale.status_code, released.status_code) == (403, 412, 200)
    assert len(runs) == 3
    assert (ended.status_code, ended.json()["type"]) == (409, "/problems/not-held")


async def test_arguments_that_the_agent_does_not_take_are_problems_with_their_field(api: Api, admin: AsyncClient) -> None:
    @api.plane.agent("count")
    async def count(ctx: Context, n: int, at: datetime | None = None) -> None: ...

    wrong = [{"n": "five"}, {"n": 1, "at": "soon"}, {}, {"n": 1, "m": 2}, {"n": 2**64}]
    answers = [await admin.post("/jobs", json={"agent": "count", "payload": payload}) for payload in wrong]
    bulk = await admin.post("/bulk/jobs", json={"jobs": [{"agent": "count", "payload": {"n": 1}}, {"agent": "count"}]})
    template = await admin.put("/templates/daily", json={"agent": "count", "params": {"n": "five"}})

    assert [answer.status_code for answer in (*answers, bulk, template)] == [422] * 7
    fields = [answer.json()["errors"][0]["field"] for answer in answers]
    assert fields == ["payload.n", "payload.at", "payload.n", "payload.m", "payload.n"]
    assert "payload.n" in bulk.json()["errors"][0]["field"]
    assert (await admin.get("/jobs")).json()["items"] == []


async def test_a_failed_job_and_its_run_name_the_step_with_the_users_own_frames(api: Api, admin: AsyncClient) -> None:
    async def charge() -> None:
        raise ExceptionGroup("both", [ValueError("the card"), KeyError("the account")])

    @api.plane.agent("shop", max_retries=0)
    async def shop(ctx: Context) -> None:
        await ctx.step("charge", charge)

    job = await api.plane.submit("shop")
    await api.plane.work()

    error = (await admin.get(f"/jobs/{job.id}")).json()["error"]
    (run,) = (await admin.get(f"/jobs/{job.id}/runs")).json()
    for found in (error, run["error_details"]):
        assert found["step"] == "charge#1"
        assert "in charge\n" in found["traceback"]
        assert "ValueError: the card" in found["traceback"]
        assert "cortex_plane" not in found["traceback"]
