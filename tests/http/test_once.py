"""The same request twice, on any server, is carried out once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from httpx import AsyncClient

from cortex_plane import Context
from cortex_plane.errors import Unavailable
from cortex_plane.storage.http_state import UNDER_WAY_SECONDS, derived_id
from tests.contract.support import raw_client
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

KEY = {"Idempotency-Key": "order-17"}


async def listed(client: AsyncClient) -> int:
    return len((await client.get("/jobs")).json()["items"])


async def test_the_same_request_has_the_same_answer(api: Api, admin: AsyncClient) -> None:
    first = await admin.post("/jobs", json={"agent": "echo"}, headers=KEY)
    again = await admin.post("/jobs", json={"agent": "echo"}, headers=KEY)

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert await listed(admin) == 1


async def test_another_body_under_the_same_key_is_refused(admin: AsyncClient) -> None:
    await admin.post("/jobs", json={"agent": "echo"}, headers=KEY)

    other = await admin.post("/jobs", json={"agent": "fail"}, headers=KEY)

    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
    assert await listed(admin) == 1


async def test_keys_of_different_callers_are_different_keys(api: Api, admin: AsyncClient) -> None:
    other = await api.client("submitter")

    answers = [await client.post("/jobs", json={"agent": "echo"}, headers=KEY) for client in (admin, other)]

    assert len({one.json()["id"] for one in answers}) == 2


async def test_of_many_at_once_one_is_carried_out(admin: AsyncClient) -> None:
    answers = await asyncio.gather(*(admin.post("/jobs", json={"agent": "echo"}, headers=KEY) for _ in range(8)))

    assert {one.status_code for one in answers} <= {201, 409}
    assert len({one.json()["id"] for one in answers if one.status_code == 201}) == 1
    assert await listed(admin) == 1


async def test_what_was_refused_may_be_sent_again_corrected(admin: AsyncClient) -> None:
    refused = await admin.post("/jobs", json={"agent": "nobody"}, headers=KEY)
    corrected = await admin.post("/jobs", json={"agent": "echo"}, headers=KEY)

    assert (refused.status_code, corrected.status_code) == (404, 201)


async def test_a_request_whose_server_died_is_taken_up_again_and_still_done_once(api: Api, admin: AsyncClient) -> None:
    """The server had submitted the job, and died before it could keep the answer."""
    first = await admin.post("/bulk/jobs", json={"jobs": [{"agent": "echo"}] * 3}, headers=KEY)
    await _unanswer(api)

    too_soon = await admin.post("/bulk/jobs", json={"jobs": [{"agent": "echo"}] * 3}, headers=KEY)
    await api.plane.clock.advance(seconds=UNDER_WAY_SECONDS + 1)
    again = await admin.post("/bulk/jobs", json={"jobs": [{"agent": "echo"}] * 3}, headers=KEY)

    assert (too_soon.status_code, too_soon.json()["type"]) == (409, "/problems/request-under-way")
    assert again.status_code == 201
    assert again.json() == first.json()
    assert await listed(admin) == 3


async def test_a_request_whose_outcome_nobody_knows_is_still_done_once(
    api: Api, admin: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was stored, and the connection broke before that was told."""
    jobs = api.plane.store.jobs
    submit = jobs.submit

    async def break_off(*arguments: Any) -> None:
        await submit(*arguments)
        raise Unavailable("The connection broke.")

    with monkeypatch.context() as broken:
        broken.setattr(jobs, "submit", break_off)
        lost = await admin.post("/jobs", json={"agent": "echo"}, headers=KEY)
    await api.plane.clock.advance(seconds=UNDER_WAY_SECONDS + 1)
    again = await admin.post("/jobs", json={"agent": "echo"}, headers=KEY)

    assert (lost.status_code, again.status_code) == (503, 201)
    assert await listed(admin) == 1


CREATING: dict[str, tuple[str, dict[str, Any], str]] = {
    "group": ("/groups", {"members": [{"agent": "echo"}, {"agent": "echo"}], "callback": {"agent": "echo"}}, "job_group"),
    "webhook": ("/webhooks", {"url": "https://example.com/hook"}, "webhook_endpoint"),
    "tenant": ("/tenants", {"name": "acme"}, "tenant"),
    "key": ("/keys", {"name": "import", "roles": ["viewer"]}, "api_key"),
    "user": ("/users", {"name": "ada"}, "user_account"),
    "group of people": ("/user-groups", {"name": "all"}, "user_group"),
    "rule": ("/retention", {"keep_seconds": 60}, "retention_rule"),
}


@pytest.mark.parametrize("what", CREATING)
async def test_what_was_made_before_the_server_died_is_not_made_twice(api: Api, what: str) -> None:
    path, body, table = CREATING[what]
    root = await api.client("admin", tenant=None)
    first = await root.post(path, json=body, headers=KEY)
    assert first.status_code == 201, first.text
    made, audited, jobs = await _rows(api, table), await _rows(api, "audit_log"), await _rows(api, "job")
    await _unanswer(api)
    await api.plane.clock.advance(seconds=UNDER_WAY_SECONDS + 1)

    again = await root.post(path, json=body, headers=KEY)

    assert again.status_code == 201, again.text
    assert again.json()["id"] == first.json()["id"]
    assert await _rows(api, table) == made
    assert await _rows(api, "job") == jobs
    assert await _rows(api, "audit_log") == audited + (what == "key")


async def test_a_key_whose_secret_nobody_was_shown_has_a_new_one(api: Api) -> None:
    root = await api.client("admin", tenant=None)
    first = await root.post("/keys", json={"name": "import", "roles": ["viewer"]}, headers=KEY)
    await _unanswer(api)
    await api.plane.clock.advance(seconds=UNDER_WAY_SECONDS + 1)
    again = await root.post("/keys", json={"name": "import", "roles": ["viewer"]}, headers=KEY)

    assert again.json()["secret"] not in (None, first.json()["secret"])
    assert await api.plane.access.by_key(again.json()["secret"]) is not None
    assert await api.plane.access.by_key(first.json()["secret"]) is None


async def test_a_job_is_forked_and_retried_once_however_often_the_server_dies(api: Api) -> None:
    @api.plane.agent("steps")
    async def steps(ctx: Context) -> str:
        return str(await ctx.step("one", "a".upper)) + str(await ctx.step("two", "b".upper))

    root = await api.client("admin", tenant=None)
    job_id = await api.submit("steps")
    await api.plane.work()

    for path, body in ((f"/jobs/{job_id}/fork", {"from_step": "two"}), (f"/jobs/{job_id}/retry", None)):
        key = {"Idempotency-Key": path[-5:]}
        first = await root.post(path, json=body, headers=key)
        await api.plane.work()
        await _unanswer(api)
        await api.plane.clock.advance(seconds=UNDER_WAY_SECONDS + 1)
        again = await root.post(path, json=body, headers=key)

        assert (first.status_code, again.status_code) == (201, 201), again.text
        assert again.json()["id"] == first.json()["id"]
    assert await listed(root) == 3


async def test_a_key_of_a_job_that_another_has_taken_since_is_not_taken_back(api: Api, admin: AsyncClient) -> None:
    asked = {"agent": "echo", "job_key": "nightly"}
    await admin.post("/jobs", json=asked, headers=KEY)
    newer = (await admin.post("/jobs", json=asked)).json()["id"]
    await _unanswer(api)
    await api.plane.clock.advance(seconds=UNDER_WAY_SECONDS + 1)

    again = await admin.post("/jobs", json=asked, headers=KEY)

    assert again.json()["status"] == "CANCELLED"
    assert (await api.plane.jobs.get(newer)).status == "PENDING"


async def test_an_answer_is_kept_for_a_day(api: Api, admin: AsyncClient) -> None:
    first = await admin.post("/jobs", json={"agent": "echo"}, headers=KEY)
    await api.plane.clock.advance(hours=25)
    second = await admin.post("/jobs", json={"agent": "fail"}, headers=KEY)

    assert second.status_code == 201
    assert first.json()["id"] != second.json()["id"]


async def test_what_has_expired_is_swept_away(api: Api, admin: AsyncClient) -> None:
    await admin.post("/jobs", json={"agent": "echo"}, headers=KEY)
    store = api.plane.store
    await store.http.hit("bucket", 60.0)
    await api.plane.clock.advance(hours=25)

    await store.http.sweep()

    assert await _rows(api, "http_request") == 0
    assert await _rows(api, "rate_limit") == 0


def test_derived_ids_are_in_order_and_the_same_each_time() -> None:
    seed = "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60"
    ids = [derived_id(seed, number) for number in range(1_000)]

    assert ids == sorted(ids)
    assert len(set(ids)) == 1_000
    assert ids == [derived_id(seed, number) for number in range(1_000)]
    assert {one[14] for one in ids} == {"7"}
    assert {one[19] for one in ids} <= set("89ab")
    assert ids[0] != derived_id("0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e61", 0)


async def _rows(api: Api, table: str) -> int:
    async with raw_client(api.plane.settings.database_url, api.plane.clock) as raw:
        [[count]] = await raw(f"select count(*) from cortex.{table}")
        return int(count)


async def _unanswer(api: Api) -> None:
    async with raw_client(api.plane.settings.database_url, api.plane.clock) as raw:
        await raw("update cortex.http_request set status = null, body = null")
