"""`cortex workers`: who runs jobs, wherever that is, and asking one to leave."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl, Reason
from cortex_plane.adapters.cli.planes import existing_plane, me
from cortex_plane.adapters.cli.redrawing import watchable
from cortex_plane.adapters.system import utc_now
from cortex_plane.core.errors import InvalidInput

LONGEST_LIST = 1000


@watchable
async def list_workers(
    *,
    ended: Annotated[bool, Parameter(name="--all", help="Those that have ended, too.")] = False,
    limit: Annotated[int, Parameter(metavar="N", help=f"How many, up to {LONGEST_LIST}; otherwise 50.")] = 50,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List the workers that live: how busy each is, and when it was last heard of.

    Try:
        cortex workers list
        cortex workers list --all
    """
    from dataclasses import asdict

    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.adapters.cli.worker_views import print_workers
    from cortex_plane.core.states import WorkerStatus

    if not 1 <= limit <= LONGEST_LIST:
        raise InvalidInput(f"--limit must be from 1 to {LONGEST_LIST}, not {limit}.", field="limit")
    async with existing_plane(plane_url) as plane:
        found = await plane.workers.list(limit=limit)
        busy = await plane.workers.busy()
    workers = [worker for worker in found if ended or worker.status is WorkerStatus.LIVE]
    if as_json:
        print_json({"workers": [{**asdict(worker), "running": busy.get(worker.id, 0)} for worker in workers]})
    elif workers:
        print_workers(workers, busy, utc_now())
    else:
        next_step("No worker lives. To start one", "cortex worker APP", plane_url, style="")
    return 0


async def drain(
    worker: Annotated[str, Parameter(name="ID", help="The worker's id, the first part of it, or its name.")],
    /,
    *,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Ask a worker, wherever it runs, to finish what it has, take nothing more, and end.

    It hears of it at its next heartbeat, within a third of its lease, and then stops as with SIGTERM: what runs has
    CORTEX_GRACE_SECONDS to finish; the rest goes on elsewhere and loses no retry.

    Try:
        cortex workers drain 0199a8c2 --reason "the machine is replaced"
        cortex workers drain host-7:4242
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        changed = await plane.workers.drain(worker, actor=me(), reason=reason)
        found = await plane.workers.get(worker)
    if as_json:
        print_json({"id": found.id, "name": found.name, "changed": changed})
        return 0
    print(f"Asked {found.name} to finish what it has, and to end." if changed else f"{found.name} was asked already.")
    next_step("To watch it go", "cortex workers list --watch", plane_url)
    return 0
