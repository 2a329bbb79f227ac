"""All routers in order, and the table of served routes."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, FastAPI

from cortex_plane.approvals import http as approval_tokens
from cortex_plane.approvals import http as approvals
from cortex_plane.approvals import http_channels as channel_callbacks
from cortex_plane.approvals import http_channels as channels
from cortex_plane.approvals import http_page as approval_page
from cortex_plane.audit import http as audit
from cortex_plane.costs import http as billing
from cortex_plane.grants import http as execution
from cortex_plane.grants import http as grants
from cortex_plane.graphs import http as graphs
from cortex_plane.groups import http as groups
from cortex_plane.http import docs as problems
from cortex_plane.http import health
from cortex_plane.http import lookups as ids
from cortex_plane.http.auth import Dependant, Requirement, requirement_in
from cortex_plane.jobs import http as jobs
from cortex_plane.jobs import http as runs
from cortex_plane.jobs import http_changes as job_changes
from cortex_plane.jobs import http_events as job_events
from cortex_plane.jobs import http_events as list_events
from cortex_plane.metrics import http as metrics
from cortex_plane.people import http as user_groups
from cortex_plane.people import http as users
from cortex_plane.people import http_access as keys
from cortex_plane.people import http_access as session
from cortex_plane.people import http_sessions as sessions
from cortex_plane.people import http_tenants as tenants
from cortex_plane.queues import http as steering
from cortex_plane.retention import http as retention
from cortex_plane.schedules import http as schedules
from cortex_plane.templates import http as templates
from cortex_plane.webhooks import http as webhooks


@dataclass(frozen=True, slots=True)
class Served:
    path: str
    methods: tuple[str, ...]
    dependant: Dependant | None
    described: bool

    @property
    def requirement(self) -> Requirement | None:
        """Who may call it; None when that was forgotten."""
        return None if self.dependant is None else requirement_in(self.dependant)


def add_routes(app: FastAPI, router: APIRouter) -> None:
    """Adds the routes of a router to those of the app, one by one, with the prefix and the dependencies that they have.

    Newer versions of FastAPI keep an included router as one entry of `app.routes`, and its routes can then be listed only by
    names that are not documented. Older versions copy every route.
    """
    app.router.routes.extend(router.routes)


def served_by(app: FastAPI) -> list[Served]:
    """Every entry of `app.routes`. One that is no route of FastAPI declares no requirement."""
    return [
        Served(
            path=getattr(route, "path", "(mounted)").replace(":path}", "}"),
            methods=tuple(sorted(getattr(route, "methods", None) or ())),
            dependant=getattr(route, "dependant", None),
            described=getattr(route, "include_in_schema", False),
        )
        for route in app.routes
    ]


# -- mounting ----------------------------------------------------------------------------------
# All routes, in one list. A new noun is a file in `routes/` and a line here.


# At the root, under addresses that other programs know.
AT_THE_ROOT: list[APIRouter] = [
    health.router,
    metrics.router,
    problems.problems_router,
    approval_tokens.tokens_router,
    approval_page.router,
    channel_callbacks.router,
    execution.execution_router,
]

# Under /api/v1: each of them has it at the beginning of its prefix. No address has a fixed word where another has an id: what
# is not there would be taken for the other. But for /jobs/events: no id looks like that, and it comes first.
ROUTERS: list[APIRouter] = [
    session.login_router,
    sessions.sessions_router,
    ids.router,
    list_events.list_events_router,
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
    runs.runs_router,
    users.router,
    channels.channels_router,
    user_groups.user_groups_router,
    retention.router,
]


def mount(app: FastAPI) -> None:
    for router in (*AT_THE_ROOT, *ROUTERS):
        add_routes(app, router)
