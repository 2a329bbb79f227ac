"""`cortex queues`, `cortex gate`, and the order of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.output import table, words
from cortex_plane.cli.planes import AsJson, JobIdOrPrefix, PlaneUrl, Reason, existing_plane, me
from cortex_plane.cli.watch import watchable
from cortex_plane.errors import InvalidInput
from cortex_plane.queues.model import Control


def controls_table(controls: Sequence[Control]) -> Table:
    rows = [[words(control.scope), words(control.name or "everything"), words(what_is_set(control))] for control in controls]
    return table(["what", "name", "set"], rows)


def what_is_set(control: Control) -> str:
    """In words, for people."""
    parts = []
    if control.paused:
        by = f" by {control.paused_by}" if control.paused_by else ""
        since = f" since {control.paused_at:%Y-%m-%d %H:%M} UTC" if control.paused_at else ""
        reason = f": {control.pause_reason}" if control.pause_reason else ""
        parts.append(f"paused{by}{since}{reason}")
    if control.held_until is not None:
        parts.append(f"held until {control.held_until:%Y-%m-%d %H:%M:%S} UTC: {control.hold_reason}")
    if control.max_running is not None:
        parts.append(f"at most {control.max_running} running")
    if control.fair_share:
        parts.append("fair share")
    if control.budget_cents is not None:
        parts.append(f"budget {control.budget_cents / 100:.2f}, then {control.on_exhausted}")
    return "; ".join(parts)


def as_document(control: Control) -> dict[str, Any]:
    return {
        "scope": control.scope,
        "name": control.name,
        "paused": control.paused,
        "paused_by": control.paused_by,
        "paused_at": control.paused_at,
        "pause_reason": control.pause_reason,
        "max_running": control.max_running,
        "fair_share": control.fair_share,
        "budget_cents": control.budget_cents,
        "on_exhausted": control.on_exhausted,
        "held_until": control.held_until,
        "hold_reason": control.hold_reason,
    }


# -- queues ------------------------------------------------------------------------------------
# `cortex queues`: list, pause and limit queues.


Queue = Annotated[str | None, Parameter(name="QUEUE", help="The queue; alternatively --agent or --tenant.")]
Agent = Annotated[str | None, Parameter(metavar="NAME", help="All jobs of this agent, in every queue.")]
Tenant = Annotated[str | None, Parameter(metavar="NAME", help="All jobs of this tenant, in every queue.")]


@watchable
async def list_queues(*, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List queues with their waiting and running jobs and settings.

    Try:
        cortex queues list
    """
    from cortex_plane.cli.output import console, print_json, table, words

    async with existing_plane(plane_url) as plane:
        queues = await plane.queues.list()
    set_for = {one.name: what_is_set(one.control) for one in queues}
    if as_json:
        print_json(
            [{"queue": one.name, **one.waiting, "running": one.running, "set": set_for[one.name] or None} for one in queues]
        )
        return 0
    if not queues:
        print("No job is waiting or running, and nothing is set.")
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
    """Pause a queue, an agent or a tenant: its jobs are no longer started.

    Running jobs finish, and new jobs are accepted.

    Try:
        cortex queues pause mail --reason "the provider is down"
        cortex queues pause --tenant acme --reason "unpaid"
    """
    what = _named(queue, agent, tenant)
    async with existing_plane(plane_url) as plane:
        changed = await plane.queues.pause(queue=queue, agent=agent, tenant=tenant, reason=reason, actor=me())
    _say(
        f"Paused {what}." if changed else f"Already paused: {what}.",
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
    """Resume a paused queue, agent or tenant.

    Try:
        cortex queues resume mail
    """
    what = _named(queue, agent, tenant)
    async with existing_plane(plane_url) as plane:
        changed = await plane.queues.resume(queue=queue, agent=agent, tenant=tenant, reason=reason, actor=me())
    _say(f"Resumed {what}." if changed else f"Not paused: {what}.", {"paused": False, "changed": changed}, as_json)
    return 0


async def limit(
    queue: Queue = None,
    /,
    *,
    running: Annotated[int | None, Parameter(metavar="N", help="Maximum number of running jobs (default: no limit).")] = None,
    agent: Agent = None,
    tenant: Tenant = None,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Limit the number of running jobs of a queue, an agent or a tenant, over all workers.

    Try:
        cortex queues limit mail --running 5
        cortex queues limit --agent report-bot --running 1
        cortex queues limit mail
    """
    what = _named(queue, agent, tenant)
    async with existing_plane(plane_url) as plane:
        await plane.queues.limit(running, queue=queue, agent=agent, tenant=tenant, reason=reason, actor=me())
    message = f"Limited {what} to {running} running jobs." if running else f"Removed the limit of {what}."
    _say(message, {"max_running": running}, as_json)
    return 0


async def fair_share(
    queue: Annotated[str, Parameter(name="QUEUE", help="The queue.")],
    /,
    *,
    off: Annotated[bool, Parameter(help="Disable fair share.")] = False,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Enable fair share: claims rotate between the tenants of a queue.

    Try:
        cortex queues fair-share mail
        cortex queues fair-share mail --off
    """
    async with existing_plane(plane_url) as plane:
        await plane.queues.share_fairly(queue, not off, actor=me())
    _say(
        f'Disabled fair share of queue "{queue}".' if off else f'Enabled fair share of queue "{queue}".',
        {"fair_share": not off},
        as_json,
    )
    return 0


async def reservations(*, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List the queues that are reserved for one job, and by whom.

    Try:
        cortex queues reservations
    """
    from cortex_plane.cli.output import console, print_json, table, words

    async with existing_plane(plane_url) as plane:
        held = await plane.queues.reservations()
    if as_json:
        print_json([{"id": r.id, "queue": r.queue, "job_id": r.job_id, "reserved_by": r.reserved_by} for r in held])
    elif held:
        rows = [[words(r.queue), words(r.reserved_by), words(r.job_id), words(r.id)] for r in held]
        console().print(table(["queue", "reserved by", "for job", "reservation"], rows))
    else:
        print("No queue is reserved.")
    return 0


async def release(
    reservation: Annotated[
        str, Parameter(name="RESERVATION", help="The id of the reservation, from `cortex queues reservations`.")
    ],
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
        await plane.queues.release(reservation, by=me(), reason=reason, force=True)
    _say(f"Released {reservation}.", {"released": reservation}, as_json)
    return 0


def _named(queue: str | None, agent: str | None, tenant: str | None) -> str:
    given = [f'{kind} "{name}"' for kind, name in (("queue", queue), ("agent", agent), ("tenant", tenant)) if name is not None]
    if len(given) != 1:
        raise InvalidInput("Give a queue, --agent NAME or --tenant NAME.", field="queue")
    return given[0]


def _say(message: str, document: dict[str, object], as_json: bool) -> None:
    from cortex_plane.cli.output import print_json

    if as_json:
        print_json(document)
    else:
        print(message)


# -- gate --------------------------------------------------------------------------------------
# `cortex gate`: stops and starts all claims.


async def close(*, reason: Reason = None, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Close the gate: no job is started until it is opened.

    Running jobs finish, new jobs are accepted, and jobs of lost workers are still recovered.

    Try:
        cortex gate close --reason "the warehouse is on fire"
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.gate.close(reason, actor=me())
    _say_gate("closed", changed, as_json)
    if not as_json:
        next_step("To open it again", "cortex gate open", plane_url)
    return 0


async def open_gate(*, reason: Reason = None, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Open the gate: waiting jobs start in queue order.

    Try:
        cortex gate open
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.gate.open(reason, actor=me())
    _say_gate("open", changed, as_json)
    return 0


async def status(*, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show whether the gate is open, and everything else that is paused or limited.

    Try:
        cortex gate status
    """
    from cortex_plane.cli.output import console, print_json
    from cortex_plane.queues.controls import is_open

    async with existing_plane(plane_url) as plane:
        controls = await plane.queues.controls()
    if as_json:
        print_json({"open": is_open(controls), "controls": [as_document(control) for control in controls]})
        return 0
    print("The gate is open." if is_open(controls) else "The gate is closed.")
    if controls:
        console().print(controls_table(controls))
    return 0


def _say_gate(state: str, changed: bool, as_json: bool) -> None:
    from cortex_plane.cli.output import print_json

    if as_json:
        print_json({"gate": state, "changed": changed})
    else:
        print(f"The gate is {state}." if changed else f"The gate was {state} already.")


# -- order -------------------------------------------------------------------------------------
# `cortex jobs why`, `move` and `priority`.


OtherJob = Annotated[str | None, Parameter(metavar="ID", help="Another waiting job of the same queue.")]


async def why(job_id: JobIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Explain why a job is not running.

    Try:
        cortex jobs why 0199a8c2
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        reasons = await plane.jobs.why(job_id)
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
    front: Annotated[bool, Parameter(help="To the front of its queue.")] = False,
    back: Annotated[bool, Parameter(help="To the back of its queue.")] = False,
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
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        moved = await plane.jobs.move(job_id, before=before, after=after, front=front, back=back, reason=reason, actor=me())
    if as_json:
        print_json({"id": moved})
    else:
        print(f"Moved {moved}")
    return 0


async def priority(
    job_id: JobIdOrPrefix,
    value: Annotated[int, Parameter(name="PRIORITY", help="Higher values run first (default of jobs: 0).")],
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
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        changed = await plane.jobs.set_priority(job_id, value, reason=reason, actor=me())
    if as_json:
        print_json({"id": changed, "priority": value})
    else:
        print(f"{changed} has priority {value}")
    return 0
