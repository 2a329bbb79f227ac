"""`cortex retention`: how long finished jobs are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.output import duration
from cortex_plane.cli.planes import AsJson, PlaneUrl, existing_plane, me

Reason = Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept in the audit log.")]


async def add(
    keep: Annotated[str, Parameter(name="KEEP", help="How long after their end: 90s, 12h, 30d.")],
    /,
    *,
    agent: Annotated[str | None, Parameter(metavar="NAME", help="Only jobs of this agent.")] = None,
    tenant: Annotated[str | None, Parameter(metavar="NAME", help="Only jobs of this tenant.")] = None,
    status: Annotated[str | None, Parameter(metavar="STATUS", help="Only jobs that are completed, failed or cancelled.")] = None,
    record: Annotated[
        str,
        Parameter(
            metavar="TABLE",
            help="Other records instead: worker, direct-reservation, schedule-run, execution-request or audit-log.",
        ),
    ] = "job",
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Add a rule: finished jobs are deleted after a time.

    Of several rules that fit a job, the most specific holds. Workers delete in small batches; runs and history go with a
    job, its entries in the audit log and what it has cost stay. A job that something live may still need is kept.

    Try:
        cortex retention add 30d
        cortex retention add 7d --agent greet --status completed
        cortex retention add 400d --record audit-log
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        rule = await plane.retention.add(
            duration(keep, "keep"),
            agent=agent,
            tenant=tenant,
            status=None if status is None else status.strip().upper(),
            record=record,
            actor=me(),
            reason=reason,
        )
    if as_json:
        print_json(rule)
    else:
        print(f"Added rule {rule.id}")
        next_step("To delete what it no longer keeps at once", "cortex retention run", plane_url)
    return 0


async def list_rules(*, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List the rules about how long finished jobs are kept.

    Try:
        cortex retention list
    """
    from cortex_plane.cli.output import console, one_line_each, print_json, words

    async with existing_plane(plane_url) as plane:
        rules = await plane.retention.list()
    if as_json:
        print_json({"rules": rules})
    elif rules:
        rows = [
            [
                words(rule.id),
                words(_span(rule.keep_seconds)),
                words(rule.record.replace("_", "-")),
                words(rule.tenant or "all"),
                words(rule.job_type or "all"),
                words(rule.status or "all"),
                words(rule.created_by or ""),
            ]
            for rule in rules
        ]
        console().print(one_line_each(["ID", "KEEP", "RECORD", "TENANT", "AGENT", "STATUS", "BY"], rows, right=[1]))
    else:
        next_step("Finished jobs are kept for ever. To change that", "cortex retention add 30d", plane_url, style="")
    return 0


async def remove(
    rule_id: Annotated[str, Parameter(name="ID", help="The rule's id, or the first part of it.")],
    /,
    *,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Remove a rule; its jobs are kept as the other rules say.

    Try:
        cortex retention remove 0199a8c2
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        rule = await plane.retention.remove(rule_id, actor=me(), reason=reason)
    if as_json:
        print_json({"removed": rule})
    else:
        print(f"Removed rule {rule.id}")
    return 0


async def run(*, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Delete now what the rules no longer keep.

    Workers do this by themselves; here you need not wait for them.

    Try:
        cortex retention run
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        deleted = await plane.retention.run(actor=me())
    if as_json:
        print_json({"deleted": deleted})
    else:
        print(f"Deleted {deleted} {'job' if deleted == 1 else 'jobs'}.")
    return 0


def _span(seconds: int) -> str:
    """As it would be written: `1d12h`."""
    left, parts = timedelta(seconds=seconds), []
    for unit, length in (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1))):
        count, left = divmod(left, length)
        parts += [f"{count}{unit}"] if count else []
    rest = left.seconds
    return "".join([*parts, f"{rest}s"] if rest or not parts else parts)
