"""`cortex audit`: what was done, by whom, and whether the record of it is untouched."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane
from cortex_plane.core.errors import InvalidInput

if TYPE_CHECKING:
    from cortex_plane.operations.verify_audit import AuditReport

LONGEST_LIST = 1000
EXIT_FOUND = 1


async def list_entries(
    *,
    object_id: Annotated[str | None, Parameter(name="--object", metavar="ID", help="Only what was done to it.")] = None,
    actor: Annotated[str | None, Parameter(metavar="NAME", help="Only what this one did, such as cli:ada.")] = None,
    action: Annotated[str | None, Parameter(metavar="ACTION", help="Only this kind of action, such as STALE_WRITE.")] = None,
    limit: Annotated[int, Parameter(metavar="N", help=f"How many, up to {LONGEST_LIST}; otherwise 20.")] = 20,
    before: Annotated[int | None, Parameter(metavar="NUMBER", help="Only entries before this one: the next page.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List what was recorded, newest first.

    Try:
        cortex audit list
        cortex audit list --object 0199a8c2-7d1e-7c3a-9f00-5b1c2d3e4f50
        cortex audit list --actor cli:ada --action GATE_CLOSED --json
    """
    from cortex_plane.adapters.cli.audit_views import print_entries
    from cortex_plane.adapters.cli.output import print_json

    if not 1 <= limit <= LONGEST_LIST:
        raise InvalidInput(f"--limit must be from 1 to {LONGEST_LIST}, not {limit}. For more, use --before.", field="limit")
    action = action and action.strip().upper().replace("-", "_")
    async with existing_plane(plane_url) as plane:
        found = await plane.audit.list(object_id=object_id, actor=actor, action=action, before=before, limit=limit + 1)
    entries, more = found[:limit], len(found) > limit
    if as_json:
        print_json({"entries": entries, "next_before": entries[-1].seq if more else None})
    elif entries:
        print_entries(entries)
        if more:
            filters = {"--object": object_id, "--actor": actor, "--action": action}
            again = "".join(f" {option} {shlex.quote(value)}" for option, value in filters.items() if value)
            next_step("\nThere are more", f"cortex audit list{again} --before {entries[-1].seq}", plane_url)
    else:
        print("No entry fits." if any((object_id, actor, action, before)) else "Nothing has been recorded yet.")
    return 0


async def verify(
    *,
    seal: Annotated[str | None, Parameter(metavar="SEAL", help="A seal that you kept elsewhere, as verify printed it.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Check that nobody changed what was recorded.

    Workers seal new entries every second, each seal bound to the one before. This finds every entry that was changed,
    removed, added or renumbered after it was sealed, and every seal that was. The exit code is 0 if nothing was, else 1.
    Whoever can write to the database can cut off the end, or seal everything anew. To find that too, keep the last
    seal somewhere else, and name it the next time.

    Try:
        cortex audit verify
        cortex audit verify --json
    """
    from cortex_plane.adapters.cli.audit_views import print_report
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        report = await plane.audit.verify(known=seal)
    if as_json:
        print_json(report_document(report))
    else:
        print_report(report)
        if report.sound and report.last_seal:
            next_step("To find a cut-off end too, keep this", f"cortex audit verify --seal {report.last_seal}", plane_url)
    return 0 if report.sound else EXIT_FOUND


def report_document(report: AuditReport) -> dict[str, object]:
    return {
        "sound": report.sound,
        "seals": report.seals,
        "sealed": report.sealed,
        "unsealed": report.unsealed,
        "last_seal": report.last_seal,
        "findings": report.findings,
    }
