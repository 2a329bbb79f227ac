"""The API and the pages in one app: `create_dashboard(plane)` is an ASGI app, as `create_app` is."""

from __future__ import annotations

from fastapi import FastAPI

from cortex_plane.approvals import pages as approvals
from cortex_plane.audit import pages as audit
from cortex_plane.dashboard import live, overview
from cortex_plane.dashboard import render as files
from cortex_plane.dashboard.errors import show_errors_as_pages
from cortex_plane.dashboard.flash import StayInTenant
from cortex_plane.dashboard.live import FirstLink, Workshop
from cortex_plane.dashboard.render import get_ready
from cortex_plane.http.app import create_app
from cortex_plane.http.routers import add_routes
from cortex_plane.jobs import pages as jobs
from cortex_plane.jobs import pages as one_job
from cortex_plane.jobs import pages_actions as job_actions
from cortex_plane.people import pages as access
from cortex_plane.people import pages as signing_in
from cortex_plane.people import pages as tenants
from cortex_plane.plane import Plane
from cortex_plane.queues import pages as gate
from cortex_plane.queues import pages as queues
from cortex_plane.schedules import pages as new_schedule
from cortex_plane.schedules import pages as schedules
from cortex_plane.settings import Settings
from cortex_plane.worker import pages as workers

# Files with fixed words before files with ids in the same place.
ROUTERS = [
    files.router,
    live.router,
    signing_in.login_router,
    overview.router,
    job_actions.router,
    jobs.router,
    one_job.job_router,
    queues.router,
    workers.router,
    gate.gate_router,
    approvals.router,
    new_schedule.new_schedule_router,
    schedules.router,
    audit.router,
    access.router,
    tenants.tenants_router,
]


def create_dashboard(
    plane: Plane,
    settings: Settings | None = None,
    *,
    first_link: FirstLink | None = None,
    workshop: Workshop | None = None,
) -> FastAPI:
    """`first_link` signs one browser in without a password; `workshop` has workers of its own that may be killed."""

    get_ready()

    def extend(app: FastAPI) -> None:
        app.state.first_link, app.state.workshop = first_link, workshop
        for router in ROUTERS:
            add_routes(app, router)
        show_errors_as_pages(app)
        app.add_middleware(StayInTenant)

    return create_app(plane, settings, extend=extend)
