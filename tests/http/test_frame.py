"""Around every request: ids, hosts, sizes, headers, problems, the page of documentation, health."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import structlog
from httpx import ASGITransport, AsyncClient

from cortex_plane.http.app import create_app
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

ROOT = "http://localhost"


async def test_each_answer_has_an_id_and_the_headers_that_protect_browsers(admin: AsyncClient) -> None:
    answer = await admin.get("/jobs")
    named = await admin.get("/jobs/none", headers={"X-Request-Id": "mine-7"})

    assert len(answer.headers["x-request-id"]) == 36
    assert named.headers["x-request-id"] == named.json()["request_id"] == "mine-7"
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe-inline" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example.com", "localhost.evil.example.com", ""])
async def test_a_host_that_is_not_ours_is_refused(admin: AsyncClient, host: str) -> None:
    answer = await admin.get("/jobs", headers={"Host": host})

    assert (answer.status_code, answer.json()["type"]) == (421, "/problems/wrong-host")


async def test_other_hosts_are_ours_when_they_are_set(api: Api) -> None:
    app = create_app(api.plane, replace(api.plane.settings, allowed_hosts="cortex.example.com, other.example.com"))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://cortex.example.com:8443") as client:
        assert (await client.get("/healthz")).status_code == 200


async def test_a_body_that_is_too_large_is_refused_with_and_without_its_length(api: Api) -> None:
    app = create_app(api.plane, replace(api.plane.settings, http_body_limit_bytes=1_000))
    key = (await api.plane.access.add_key("k", ["admin"])).secret
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    async def in_parts() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 100

    async with AsyncClient(transport=ASGITransport(app), base_url=ROOT, headers=headers) as client:
        whole = await client.post("/api/v1/jobs", content=b" " * 1_001)
        parts = await client.post("/api/v1/jobs", content=in_parts())

    for answer in (whole, parts):
        assert (answer.status_code, answer.json()["type"]) == (413, "/problems/body-too-large")


async def test_what_is_not_there_is_told_as_a_problem(admin: AsyncClient) -> None:
    nothing = await admin.get(f"{ROOT}/nothing/here")
    method = await admin.patch("/jobs")

    assert (nothing.status_code, nothing.json()["type"]) == (404, "/problems/no-such-route")
    assert (method.status_code, method.json()["type"]) == (405, "/problems/method-not-allowed")
    assert {nothing.headers["content-type"], method.headers["content-type"]} == {"application/problem+json"}
    assert method.headers["allow"] == "GET, POST"


async def test_the_type_of_a_problem_leads_to_its_description(admin: AsyncClient) -> None:
    problem = (await admin.get("/jobs/0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60")).json()

    described = await admin.get(ROOT + problem["type"])

    assert described.json()["status"] == problem["status"] == 404
    assert problem["type"] in [one["type"] for one in (await admin.get(f"{ROOT}/problems")).json()]


async def test_a_mistake_of_ours_tells_nothing_about_itself(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await api.client("viewer")

    async def broken(_job_id: str) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(api.plane.store.jobs, "get", broken)
    answer = await client.get("/jobs/0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60")

    assert (answer.status_code, answer.json()["type"]) == (500, "/problems/unexpected")
    assert "hunter2" not in answer.text


async def test_large_answers_are_packed(api: Api, admin: AsyncClient) -> None:
    for _ in range(20):
        await api.submit()

    answer = await admin.get("/jobs", headers={"Accept-Encoding": "gzip"})

    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.json()["items"]) == 20


async def test_the_log_names_the_route_and_the_caller_and_no_secret(api: Api) -> None:
    key = (await api.plane.access.add_key("k", ["viewer"])).secret
    client = await api.stranger(Authorization=f"Bearer {key}")
    with structlog.testing.capture_logs() as lines:
        await client.get("/jobs?text=hunter2")

    [line] = [line for line in lines if line["event"] == "http.request"]
    assert (line["method"], line["status"], line["caller"]) == ("GET", 200, f"key:{key[:12]}")
    assert key not in str(lines)
    assert "hunter2" not in str(lines)


async def test_the_documentation_needs_nothing_from_elsewhere(api: Api) -> None:
    stranger = await api.stranger()
    page = await stranger.get(f"{ROOT}/docs")

    assert page.status_code == 200
    assert "//" not in page.text.replace("<!doctype", "")
    assert "<script>" not in page.text
    for part in ("swagger-ui.css", "swagger-ui-bundle.js", "start.js", "favicon-32x32.png"):
        assert f"/docs/{part}" in page.text
        assert (await stranger.get(f"{ROOT}/docs/{part}")).status_code == 200


async def test_the_description_names_every_error_and_who_may(api: Api) -> None:
    document = (await (await api.stranger()).get(f"{ROOT}/openapi.json")).json()

    assert document["openapi"] == "3.1.0"
    submit = document["paths"]["/api/v1/jobs"]["post"]
    assert "**submitter**" in submit["description"]
    assert {"201", "400", "401", "403", "404", "409", "413", "422", "429", "503"} <= set(submit["responses"])
    assert "idempotency-key-reused" in submit["responses"]["422"]["description"]
    assert document["components"]["schemas"]["SubmitJob"]["examples"]
    assert "security" not in document["paths"]["/healthz"]["get"]
