"""`cortex queues`: what waits where, and what may run."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl, Reason
from cortex_plane.adapters.cli.planes import existing_plane, me
from cortex_plane.adapters.cli.redrawing import watchable
from cortex_plane.core.errors import InvalidInput

Queue = Annotated[str | None, Parameter(name="QUEUE", help="The queue; or give --agent or --tenant instead.")]
Agent = Annotated[str | None, Parameter(metavar="NAME", help="All jobs of this agent, in every queue.")]
Tenant = Annotated[str | None, Parameter(metavar="NAME", help="All jobs of this tenant, in every queue.")]


@watchable
async def list_queues(*, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List the queues: how many jobs wait and run, and what is set.

    Try:
        cortex queues list
    """
    from cortex_plane.adapters.cli.control_views import what_is_set
    from cortex_plane.adapters.cli.output import console, print_json, table, words

    async with existing_plane(plane_url) as plane:
        queues = await plane.queues()
    set_for = {one.name: what_is_set(one.control) for one in queues}
    if as_json:
        print_json(
            [{"queue": one.name, **one.waiting, "running": one.running, "set": set_for[one.name] or None} for one in queues]
        )
        return 0
    if not queues:
        print("No job waits or runs, and nothing is set.")
        next_step("To submit one", "cortex jobs submit AGENT", plane_url)
        return 0
    states = ("ready", "later", "blocked", "held")
    rows = [
        [
            words(one.name),
            *(words(one.waiting.get(state, 0)) for state in states),
            words(one.running),
            words(set_for[one.name]),
        ]
        for one in queues
    ]
    console().print(table(["queue", *states, "running", "set"], rows, right=range(1, 6)))
    return 0


async def pause(
    queue: Queue = None,
    /,
    *,
    agent: Agent = None,
    tenant: Tenant = None,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Pause a queue, an agent or a tenant: nothing more of it is started.

    What runs goes on, and new jobs are accepted.

    Try:
        cortex queues pause mail --reason "the provider is down"
        cortex queues pause --tenant acme --reason "unpaid"
    """
    what = _named(queue, agent, tenant)
    async with existing_plane(plane_url) as plane:
        changed = await plane.pause(queue=queue, agent=agent, tenant=tenant, reason=reason, actor=me())
    _say(
        f"Paused {what}." if changed else f"It was paused already: {what}.",
        {"paused": True, "changed": changed},
        as_json,
    )
    return 0


async def resume(
    queue: Queue = None,
    /,
    *,
    agent: Agent = None,
    tenant: Tenant = None,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Let a paused queue, agent or tenant go on.

    Try:
        cortex queues resume mail
    """
    what = _named(queue, agent, tenant)
    async with existing_plane(plane_url) as plane:
        changed = await plane.resume(queue=queue, agent=agent, tenant=tenant, reason=reason, actor=me())
    _say(f"Resumed {what}." if changed else f"It was not paused: {what}.", {"paused": False, "changed": changed}, as_json)
    return 0


async def limit(
    queue: Queue = None,
    /,
    *,
    running: Annotated[
        int | None, Parameter(metavar="N", help="At most so many at a time; without it the limit is lifted.")
    ] = None,
    agent: Agent = None,
    tenant: Tenant = None,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Limit how many jobs of a queue, an agent or a tenant run at a time, over all workers.

    Try:
        cortex queues limit mail --running 5
        cortex queues limit --agent report-bot --running 1
        cortex queues limit mail
    """
    what = _named(queue, agent, tenant)
    async with existing_plane(plane_url) as plane:
        await plane.limit(running, queue=queue, agent=agent, tenant=tenant, reason=reason, actor=me())
    message = f"At most {running} jobs of {what} run at a time." if running else f"There is no limit for {what}."
    _say(message, {"max_running": running}, as_json)
    return 0


async def share(
    queue: Annotated[str, Parameter(name="QUEUE", help="The queue.")],
    /,
    *,
    off: Annotated[bool, Parameter(help="Back to one order for all.")] = False,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Let the tenants of a queue take turns, however many jobs each has waiting.

    Try:
        cortex queues share mail
        cortex queues share mail --off
    """
    async with existing_plane(plane_url) as plane:
        await plane.share_fairly(queue, not off, actor=me())
    _say(
        f'Queue "{queue}" has one order for all tenants.' if off else f'The tenants of queue "{queue}" take turns.',
        {"fair_share": not off},
        as_json,
    )
    return 0


async def reservations(*, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List the queues that are reserved for one job, and by whom.

    Try:
        cortex queues reservations
    """
    from cortex_plane.adapters.cli.output import console, print_json, table, words

    async with existing_plane(plane_url) as plane:
        held = await plane.reservations()
    if as_json:
        print_json([{"id": r.id, "queue": r.queue, "job_id": r.job_id, "reserved_by": r.reserved_by} for r in held])
    elif held:
        rows = [[words(r.queue), words(r.reserved_by), words(r.job_id), words(r.id)] for r in held]
        console().print(table(["queue", "reserved by", "for job", "reservation"], rows))
    else:
        print("No queue is reserved.")
    return 0


async def release(
    reservation: Annotated[str, Parameter(name="RESERVATION", help="Its id, as `cortex queues reservations` shows it.")],
    /,
    *,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """End a reservation by force. Its job stays in the queue.

    Try:
        cortex queues release 0199a8c2-7d1e-7c4f-9a43-3f2b1c0d9e8f --reason "its caller hangs"
    """
    async with existing_plane(plane_url) as plane:
        await plane.release(reservation, by=me(), reason=reason, force=True)
    _say(f"Released {reservation}.", {"released": reservation}, as_json)
    return 0


def _named(queue: str | None, agent: str | None, tenant: str | None) -> str:
    given = [f'{kind} "{name}"' for kind, name in (("queue", queue), ("agent", agent), ("tenant", tenant)) if name is not None]
    if len(given) != 1:
        raise InvalidInput("Say one queue, or --agent NAME, or --tenant NAME.", field="queue")
    return given[0]


def _say(message: str, document: dict[str, object], as_json: bool) -> None:
    from cortex_plane.adapters.cli.output import print_json

    if as_json:
        print_json(document)
    else:
        print(message)
