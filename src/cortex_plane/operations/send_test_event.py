"""Sends one message to a webhook endpoint, whatever it listens to, so that its owner sees that everything works."""

from __future__ import annotations

from typing import Any

from cortex_plane.core.errors import Conflict
from cortex_plane.core.instants import as_datetime
from cortex_plane.core.jobs import INTERNAL_QUEUE, JobId, NewJob
from cortex_plane.core.webhooks import TEST_EVENT, WEBHOOK_AGENT, Endpoint
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.find_endpoint import find_endpoint
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.json_text import encode
from cortex_plane.ports.store import Store


async def send_test_event(
    store: Store, directory: Directory, clock: Clock, new_id: NewId, id_or_prefix: str, *, actor: str | None = None
) -> JobId:
    endpoint = await find_endpoint(store, id_or_prefix)
    if not endpoint.enabled:
        raise Conflict(f"Webhook endpoint {endpoint.id} is disabled. To enable it: cortex webhooks enable {endpoint.id}")
    agent = await directory.agent(WEBHOOK_AGENT)
    job = NewJob(
        id=JobId(new_id()),
        tenant_id=endpoint.tenant_id,
        agent_id=agent.id,
        job_type=agent.job_type,
        queue=INTERNAL_QUEUE,
        payload=encode(_payload(endpoint, new_id(), clock)),
        max_retries=0,
        created_by=actor,
    )
    await store.jobs.submit([job])
    return job.id


def _payload(endpoint: Endpoint, event_id: str, clock: Clock) -> dict[str, Any]:
    return {
        "endpoint_id": endpoint.id,
        "event_id": f"evt_{event_id.replace('-', '')}",
        "event": {
            "type": TEST_EVENT,
            "timestamp": as_datetime(clock.now()).isoformat(),
            "data": {"endpoint_id": endpoint.id, "events": endpoint.events},
        },
    }
