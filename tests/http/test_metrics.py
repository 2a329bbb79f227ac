"""Figures for Prometheus: what is in them, what is never in them, and who may read them."""

from __future__ import annotations

import pytest
from httpx import ASGITransport, AsyncClient
from prometheus_client.parser import text_string_to_metric_families

from cortex_plane import Context
from cortex_plane.errors import Unavailable
from cortex_plane.http.app import create_app
from cortex_plane.http.embedded import create_watching_app
from cortex_plane.testing import throwaway_plane
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

ADDRESS = "http://localhost/metrics"


async def samples(client: AsyncClient) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name and values of labels."""
    answer = await client.get(ADDRESS)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_what_waits_runs_and_has_run_is_in_them(api: Api) -> None:
    @api.plane.agent("measured", queue="measuring")
    async def measured(ctx: Context) -> None:
        await ctx.step("one", str)

    await api.submit("measured")
    await api.plane.work(queues=["measuring"])
    await api.submit()
    await api.plane.clock.advance(seconds=7)

    found = await samples(await api.stranger())

    assert found["cortex_jobs", ("default", "ready")] == 1
    assert found["cortex_queue_oldest_ready_seconds", ("default",)] == 7
    assert found["cortex_runs_total", ("measured", "completed")] >= 1
    assert found["cortex_run_seconds_count", ("measured",)] >= 1
    assert found["cortex_checkpoint_bytes_count", ("measured",)] >= 1
    assert found["cortex_database_up", ()] == 1
    assert found["cortex_gate_open", ()] == 1
    assert found["cortex_loop_last_good_seconds", ("sweeper",)] >= 0


async def test_a_retry_is_counted(api: Api) -> None:
    @api.plane.agent("retried")
    async def retried(ctx: Context) -> None:
        raise ValueError("no")

    await api.submit("retried")
    await api.plane.work()

    found = await samples(await api.stranger())

    assert found["cortex_retries_total", ("retried",)] >= 1
    assert found["cortex_runs_total", ("retried", "retry")] >= 1


async def test_requests_are_counted_by_the_patterns_of_their_routes_and_never_by_what_is_in_them(api: Api) -> None:
    admin = await api.client("admin")
    job_id = await api.submit()
    await admin.get(f"/jobs/{job_id}")
    await admin.get("http://localhost/nothing/ctx_secret_key")
    await admin.request("BREW", "/jobs")

    text = (await admin.get(ADDRESS)).text
    found = await samples(admin)

    assert found["cortex_http_requests_total", ("GET", "/api/v1/jobs/{job_id}", "200")] >= 1
    assert found["cortex_http_requests_total", ("GET", "(none)", "404")] >= 1
    assert any(labels[0] == "OTHER" for name, labels in found if name == "cortex_http_requests_total")
    assert job_id not in text
    assert "ctx_" not in text


async def test_the_database_is_asked_every_few_seconds_at_most(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await api.stranger()
    await samples(client)
    await api.submit()
    kept = await samples(client)
    api.app.state.figures.asked_at -= 5
    asked = await samples(client)

    assert ("cortex_jobs", ("default", "ready")) not in kept
    assert asked["cortex_jobs", ("default", "ready")] == 1


async def test_without_a_database_the_rest_is_still_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away() -> None:
        raise Unavailable("gone")

    monkeypatch.setattr(api.plane.store.gauges, "figures", away)
    found = await samples(await api.stranger())

    assert found["cortex_database_up", ()] == 0
    assert ("cortex_gate_open", ()) not in found


async def test_without_a_token_they_are_for_this_machine_only() -> None:
    async with throwaway_plane() as plane:
        app = create_app(plane)
        for client, headers, status in (
            (("127.0.0.1", 1), {}, 200),
            (("::1", 1), {}, 200),
            (("192.0.2.7", 1), {}, 403),
            (("127.0.0.1", 1), {"X-Forwarded-For": "192.0.2.7"}, 403),
            (("127.0.0.1", 1), {"Forwarded": "for=192.0.2.7"}, 403),
        ):
            async with AsyncClient(transport=ASGITransport(app, client=client), headers=headers) as asked:
                assert (await asked.get(ADDRESS)).status_code == status, (client, headers)


async def test_with_a_token_they_are_for_whoever_has_it() -> None:
    async with throwaway_plane(metrics_token="let me see") as plane:
        app = create_app(plane)
        for header, status in (("Bearer let me see", 200), ("Bearer let me", 401), ("Basic let me see", 401), ("", 401)):
            transport = ASGITransport(app, client=("192.0.2.7", 1))
            async with AsyncClient(transport=transport, headers={"Authorization": header} if header else {}) as asked:
                answer = await asked.get(ADDRESS)
                assert answer.status_code == status, header
                assert "let me see" not in answer.text


async def test_a_worker_tells_what_it_counts_and_whether_it_is_ready_and_nothing_of_the_database() -> None:
    async with throwaway_plane() as plane:
        app = create_watching_app(plane)
        async with AsyncClient(transport=ASGITransport(app), base_url="http://worker:9100") as asked:
            text = (await asked.get("/metrics")).text
            assert "cortex_runs_total" in text
            assert "cortex_gate_open" not in text
            assert (await asked.get("/readyz")).json()["ready"] is True
            assert (await asked.get("/api/v1/jobs")).status_code == 404
