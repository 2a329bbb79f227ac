"""`cortex jobs why`, `move` and `priority`: where a job stands, and how to change that."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.options import AsJson, JobIdOrPrefix, PlaneUrl, Reason
from cortex_plane.adapters.cli.planes import existing_plane, me

OtherJob = Annotated[str | None, Parameter(metavar="ID", help="Another waiting job of the same queue.")]


async def why(job_id: JobIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Say why a job is not running.

    Try:
        cortex jobs why 0199a8c2
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        reasons = await plane.why(job_id)
    if as_json:
        print_json([{"code": reason.code, "message": reason.message} for reason in reasons])
    else:
        for reason in reasons:
            print(reason.message)
    return 0


async def move(
    job_id: JobIdOrPrefix,
    /,
    *,
    before: OtherJob = None,
    after: OtherJob = None,
    front: Annotated[bool, Parameter(help="Before all others of its queue.")] = False,
    back: Annotated[bool, Parameter(help="After all others of its queue.")] = False,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Move a waiting job within its queue.

    It takes the priority of its new neighbour.

    Try:
        cortex jobs move 0199a8c2 --front
        cortex jobs move 0199a8c2 --before 0199a8d7
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        moved = await plane.move(job_id, before=before, after=after, front=front, back=back, reason=reason, actor=me())
    if as_json:
        print_json({"id": moved})
    else:
        print(f"Moved {moved}")
    return 0


async def priority(
    job_id: JobIdOrPrefix,
    value: Annotated[int, Parameter(name="PRIORITY", help="Higher runs first; 0 is usual.")],
    /,
    *,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Change the priority of a waiting job.

    Try:
        cortex jobs priority 0199a8c2 10
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        changed = await plane.set_priority(job_id, value, reason=reason, actor=me())
    if as_json:
        print_json({"id": changed, "priority": value})
    else:
        print(f"{changed} has priority {value}")
    return 0
