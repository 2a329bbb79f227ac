"""Which events are written for whom, and that they are written with the change itself."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, INTERNAL_QUEUE, JobId, TenantId
from cortex_plane.jobs.outcomes import Done, Failed, Held
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.jobs.states import JobStatus
from cortex_plane.webhooks.model import WEBHOOK_AGENT, EndpointId, NewEndpoint, new_secret
from cortex_plane.webhooks.service import disable_endpoint, enable_endpoint
from tests.contract.support import BOOM, FATAL, Raw, ended, into
from tests.webhooks.conftest import Post

pytestmark = pytest.mark.anyio

URL = "https://hooks.example.com/in"


async def events(post: Post) -> list[tuple[str, Any]]:
    found = [job.payload["event"] for job in await post.deliveries()]
    return [(event["type"], event["data"]["job_id"]) for event in found]


async def test_each_ending_is_an_event(post: Post) -> None:
    await post.listen(URL)
    completed = await post.ended()
    failed = await post.ended(FATAL)
    cancelled = await post.submit()
    await post.store.jobs.cancel(cancelled, "ada", "not needed")

    assert await events(post) == [("job.completed", completed), ("job.failed", failed), ("job.cancelled", cancelled)]


async def test_a_job_that_failed_because_a_call_is_uncertain_is_an_event_of_its_own_too(post: Post) -> None:
    await post.listen(URL, events=("job.uncertain",))
    await post.listen(URL, events=("job.*",))
    failed = await post.ended(FATAL)
    uncertain = await post.ended(Failed({"type": "ToolUncertain", "message": "who knows"}, retryable=False))

    found = await events(post)
    assert sorted(found) == sorted(
        [("job.failed", failed), ("job.failed", uncertain), ("job.uncertain", uncertain), ("job.uncertain", uncertain)]
    )
    assert len({job.payload["event_id"] for job in await post.deliveries()}) == 3


DIFFERENCE = {"type": "CodeChanged", "message": 'The code calls tool "scan".', "step": "scan"}


async def test_a_job_whose_code_does_not_fit_is_an_event_for_each_version_of_the_code(post: Post) -> None:
    await post.listen(URL, events=("job.held",))
    await post.listen(URL, events=("job.failed",))

    job_id = await post.ended(Held(DIFFERENCE, "first", 0.0))
    for outcome in (
        Held(DIFFERENCE, "first", 0.0, handed_back=True),
        Held(DIFFERENCE, "first", 0.0, again=True),
        Held(DIFFERENCE, "second", 0.0),
    ):
        [claimed] = await post.claim(await post.worker(), 1)
        await post.finish(claimed, outcome)

    deliveries = [delivery.payload for delivery in await post.deliveries()]
    assert [one["event"]["type"] for one in deliveries] == ["job.held", "job.held"]
    assert len({one["event_id"] for one in deliveries}) == 2
    data = deliveries[0]["event"]["data"]
    assert (data["job_id"], data["status"], data["wait_reason"]) == (job_id, "RETRY", "code_changed")
    assert (data["step"], data["error_message"]) == ("scan", DIFFERENCE["message"])


async def test_an_event_tells_what_became_of_the_job(post: Post) -> None:
    endpoint = (await post.listen(URL)).endpoint
    await post.clock.advance(microseconds=5)
    job_id = await post.ended(tags=("blue",))

    [delivery] = await post.deliveries()
    assert delivery.payload == {
        "endpoint_id": endpoint.id,
        "event_id": f"evt_{job_id.replace('-', '')}",
        "event": {
            "type": "job.completed",
            "timestamp": post.now.isoformat(),
            "data": {
                "job_id": job_id,
                "agent": "echo",
                "queue": "default",
                "status": "COMPLETED",
                "attempt": 1,
                "tags": ["blue"],
                "error_message": None,
                "output": {"answer": 42},
                "output_omitted": False,
                "retry_of": None,
                "retried_as": None,
            },
        },
    }
    assert (delivery.queue, delivery.job_type, delivery.max_retries) == (INTERNAL_QUEUE, WEBHOOK_AGENT, 8)
    assert (delivery.status, delivery.created_by, delivery.tenant_id) == (JobStatus.PENDING, WEBHOOK_AGENT, endpoint.tenant_id)


async def test_a_failure_is_told_by_its_message_alone(post: Post) -> None:
    await post.listen(URL)
    await post.ended(FATAL)

    [delivery] = await post.deliveries()
    data = delivery.payload["event"]["data"]
    assert (data["error_message"], data["output"], data["status"]) == ("boom", None, "FAILED")


async def test_a_long_output_stays_behind(post: Post) -> None:
    await post.listen(URL)
    await post.ended(Done(f'"{"x" * 20_000}"'))

    [delivery] = await post.deliveries()
    data = delivery.payload["event"]["data"]
    assert (data["output"], data["output_omitted"]) == (None, True)


async def test_a_job_that_goes_on_is_no_event(post: Post) -> None:
    await post.listen(URL)
    await post.ended(BOOM)
    await post.submit()

    assert await post.deliveries() == []


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        (["*"], ["job.completed", "job.failed"]),
        (["job.*"], ["job.completed", "job.failed"]),
        (["job.failed"], ["job.failed"]),
        (["job.cancelled"], []),
        (["job.cancelled", "job.completed"], ["job.completed"]),
    ],
)
async def test_an_endpoint_is_told_what_it_listens_to(post: Post, filters: list[str], told: list[str]) -> None:
    await post.listen(URL, events=filters)
    await post.ended()
    await post.ended(FATAL)

    assert [kind for kind, _ in await events(post)] == told


async def test_each_endpoint_gets_its_own_delivery_of_one_event(post: Post) -> None:
    added = [(await post.listen(f"{URL}/{number}")).endpoint.id for number in range(3)]
    await post.ended()

    deliveries = await post.deliveries()
    assert {job.payload["endpoint_id"] for job in deliveries} == set(added)
    assert len({job.payload["event_id"] for job in deliveries}) == 1
    assert len({job.position for job in deliveries}) == len({job.worker_job_id for job in deliveries}) == 3


async def test_the_endpoint_of_another_tenant_is_told_nothing(post: Post) -> None:
    await post.store.tenants.add(TenantId(new_id()), "acme")
    await post.listen(URL, tenant="acme")
    await post.ended()
    assert await post.deliveries() == []

    ours = (await post.listen(URL)).endpoint
    await post.ended()
    assert [job.payload["endpoint_id"] for job in await post.deliveries()] == [ours.id]


async def test_a_disabled_endpoint_is_told_nothing(post: Post) -> None:
    endpoint = (await post.listen(URL)).endpoint
    await disable_endpoint(post.store, endpoint.id)
    await post.ended()
    assert await post.deliveries() == []

    await enable_endpoint(post.store, endpoint.id)
    await post.ended()
    assert len(await post.deliveries()) == 1


async def test_the_planes_own_jobs_are_no_events(post: Post) -> None:
    """Or each delivery would cause the next."""
    await post.listen(URL)
    await post.agent("cortex.chore", queue=INTERNAL_QUEUE)
    await post.ended(job_type="cortex.chore", queue=INTERNAL_QUEUE)
    await post.ended(FATAL, job_type="cortex.chore", queue=INTERNAL_QUEUE)

    assert {job.job_type for job in await post.deliveries()} == {"cortex.chore"}


async def test_the_planes_own_jobs_are_no_events_even_among_others(post: Post) -> None:
    await post.listen(URL)
    await post.agent("cortex.chore", queue=INTERNAL_QUEUE)
    chore = await post.running(job_type="cortex.chore", queue=INTERNAL_QUEUE)
    job = await post.running()
    await post.store.queue.finish([ended(chore, Done()), ended(job, Done())], "test")

    told = [delivery for delivery in await post.deliveries() if delivery.job_type == WEBHOOK_AGENT]
    assert [delivery.payload["event"]["data"]["job_id"] for delivery in told] == [job.job_id]


async def test_without_the_agent_nothing_is_written(post: Post) -> None:
    """Adding an endpoint announces the agent, so this takes somebody who does not use that operation."""
    endpoint = NewEndpoint(EndpointId(new_id()), DEFAULT_TENANT_ID, URL, ("*",), new_secret(bytes(32)))
    await post.store.webhooks.add(endpoint, AuditEntry("WEBHOOK_ADDED", "webhook_endpoint", endpoint.id))
    job_id = await post.ended()

    assert await post.status(job_id) is JobStatus.COMPLETED
    assert await post.deliveries() == []


async def test_a_chained_failure_names_its_successor(post: Post) -> None:
    await post.listen(URL)
    claimed = await post.running()
    await post.finish(claimed, BOOM, RetryPolicy("chain"))

    [delivery] = await post.deliveries()
    successor = (await post.job(claimed.job_id)).retried_as
    assert successor is not None
    assert delivery.payload["event"]["data"]["retried_as"] == successor


async def test_many_that_end_together_are_told_one_by_one(post: Post) -> None:
    await post.listen(URL, events=["job.completed"])
    await post.listen(URL, events=["job.failed"])
    jobs = [await post.submit() for _ in range(10)]
    claimed = await post.claim(await post.worker(), 10)
    await post.store.queue.finish([ended(one, FATAL if n % 2 else Done()) for n, one in enumerate(claimed)], "test")

    assert {job_id for _, job_id in await events(post)} == set(jobs)
    assert sorted(kind for kind, _ in await events(post)) == ["job.completed"] * 5 + ["job.failed"] * 5


async def test_an_ending_and_its_event_are_one_transaction(post: Post, raw: Raw) -> None:
    await post.listen(URL)
    job_id = await post.submit()
    await raw("begin")
    await raw(f"update cortex.job set {into(JobStatus.CANCELLED, raw)} where id = '{job_id}'")
    inside = await raw(f"select count(*) from cortex.job where queue = '{INTERNAL_QUEUE}'")
    await raw("rollback")

    assert inside == [(1,)]
    assert await post.status(job_id) is JobStatus.PENDING
    assert await post.deliveries() == []


async def test_raw_sql_ends_a_job_with_an_event_too(post: Post, raw: Raw) -> None:
    await post.listen(URL)
    job_id: JobId = await post.submit()
    await raw(f"update cortex.job set {into(JobStatus.CANCELLED, raw)} where id = '{job_id}'")

    assert await events(post) == [("job.cancelled", job_id)]


async def test_a_change_after_the_end_is_no_second_event(post: Post, raw: Raw) -> None:
    await post.listen(URL)
    job_id = await post.ended()
    await raw(f"update cortex.job set status = status, cost_cents = 5 where id = '{job_id}'")

    assert len(await post.deliveries()) == 1
