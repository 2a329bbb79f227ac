"""`cortex groups submit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.errors import EXIT_JOB_FAILED
from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane, me
from cortex_plane.core.errors import NotFound, UnknownAgent
from cortex_plane.core.tenants import OWN_TENANT

if TYPE_CHECKING:
    from cortex_plane.adapters.cli.group_files import GroupFile
    from cortex_plane.groups import GroupHandle, Groups


async def submit(
    file: Annotated[str, Parameter(name="FILE", help="A file of JSON that describes the group; @- for stdin.")],
    /,
    *,
    tenant: Annotated[str, Parameter(metavar="NAME", help="Whose group it is; otherwise the default tenant's.")] = OWN_TENANT,
    wait: Annotated[bool, Parameter(help="Wait until it is finished. Exit code 7 unless every member completed.")] = False,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Submit jobs that belong together: all of them or none.

    The file is {"members": [...]}; name, mode (parallel or sequential), on_failure (stop, skip or
    continue) and callback (a job that is told how the group ended) may be added. A member is
    {"agent": "build", "payload": {"stage": 1}}, with queue, priority, run_at, delay, timeout,
    max_retries, job_key, key_mode, serial_key and tags where you want them.

    Try:
        cortex groups submit release.json
        cortex groups submit release.json --wait --json
    """
    from cortex_plane.adapters.cli.group_files import read_group
    from cortex_plane.adapters.cli.groups import document_of, print_group
    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.core.groups import GroupStatus

    asked = read_group(file, tenant, me())
    async with existing_plane(plane_url) as plane:
        groups = plane.groups
        handle = await _submitted(groups, asked)
        if not as_json:
            count = len(handle.jobs)
            print(f"Submitted {count} job{'' if count == 1 else 's'} as group {handle.id}")
        if not wait and not as_json:
            next_step("To look at it", f"cortex groups show {handle.id}", plane_url)
        group = await (handle.wait() if wait else handle.group())
        members = await groups.members(handle.id)
    if as_json:
        print_json({"group": document_of(group), "members": members})
    elif wait:
        print_group(group, members)
    return 0 if not wait or group.status is GroupStatus.COMPLETED else EXIT_JOB_FAILED


async def _submitted(groups: Groups, asked: GroupFile) -> GroupHandle:
    try:
        return await groups.submit(asked.members, callback=asked.callback, created_by=me(), **asked.settings)
    except UnknownAgent as unknown:
        place = asked.place_of(unknown.job_type)
        raise NotFound(f"{place}.agent: {unknown}\nIf its app has never run, start it: cortex worker APP") from unknown
