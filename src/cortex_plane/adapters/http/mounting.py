"""All routes, in one list. A new noun is a file in `routes/` and a line here."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from cortex_plane.adapters.http.frame import PREFIX
from cortex_plane.adapters.http.routes import (
    approval_page,
    approval_tokens,
    approvals,
    audit,
    billing,
    channel_callbacks,
    channels,
    execution,
    grants,
    graphs,
    groups,
    health,
    ids,
    job_changes,
    job_events,
    jobs,
    keys,
    list_events,
    metrics,
    problems,
    retention,
    runs,
    schedules,
    session,
    steering,
    templates,
    tenants,
    user_groups,
    users,
    webhooks,
)

# At the root, under addresses that other programs know.
AT_THE_ROOT: list[APIRouter] = [
    health.router,
    metrics.router,
    problems.router,
    approval_tokens.router,
    approval_page.router,
    channel_callbacks.router,
    execution.router,
]

# Under /api/v1. No address has a fixed word where another has an id: what is not there would be taken for the other. But for
# /jobs/events: no id looks like that, and it comes first.
ROUTERS: list[APIRouter] = [
    session.router,
    ids.router,
    list_events.router,
    job_changes.router,
    job_changes.bulk,
    job_events.router,
    jobs.router,
    jobs.bulk,
    steering.router,
    tenants.router,
    templates.router,
    groups.router,
    webhooks.router,
    approvals.mine,
    approvals.bulk,
    approvals.router,
    webhooks.letters,
    audit.router,
    keys.router,
    schedules.router,
    grants.router,
    billing.router,
    graphs.router,
    runs.router,
    users.router,
    channels.router,
    user_groups.router,
    retention.router,
]


def mount(app: FastAPI) -> None:
    for router in AT_THE_ROOT:
        app.include_router(router)
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX)
