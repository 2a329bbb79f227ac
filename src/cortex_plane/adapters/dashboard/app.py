"""The API and the pages in one app: `create_dashboard(plane)` is an ASGI app, as `create_app` is."""

from __future__ import annotations

from fastapi import FastAPI

from cortex_plane.adapters.dashboard import files, live
from cortex_plane.adapters.dashboard.errors import show_errors_as_pages
from cortex_plane.adapters.dashboard.first_link import FirstLink
from cortex_plane.adapters.dashboard.rendering import get_ready
from cortex_plane.adapters.dashboard.routes import (
    access,
    approvals,
    audit,
    gate,
    job_actions,
    jobs,
    new_schedule,
    one_job,
    overview,
    queues,
    schedules,
    signing_in,
    tenants,
    workers,
)
from cortex_plane.adapters.dashboard.staying import StayInTenant
from cortex_plane.adapters.dashboard.workshop import Workshop
from cortex_plane.adapters.http.app import create_app
from cortex_plane.plane import Plane
from cortex_plane.settings import Settings

# Files with fixed words before files with ids in the same place.
ROUTERS = [
    files.router,
    live.router,
    signing_in.router,
    overview.router,
    job_actions.router,
    jobs.router,
    one_job.router,
    queues.router,
    workers.router,
    gate.router,
    approvals.router,
    new_schedule.router,
    schedules.router,
    audit.router,
    access.router,
    tenants.router,
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
            app.include_router(router)
        show_errors_as_pages(app)
        app.add_middleware(StayInTenant)

    return create_app(plane, settings, extend=extend)
