"""`cortex audit`: list, verify, export."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

from cyclopts import Parameter

from cortex_plane.audit.model import AuditRecord, FindingKind, SealFinding
from cortex_plane.cli.hints import next_step
from cortex_plane.cli.output import console, one_line, one_line_each, stamp, table, words
from cortex_plane.cli.planes import AsJson, PlaneUrl, existing_plane
from cortex_plane.errors import InvalidInput
from cortex_plane.json import dumps, loads

if TYPE_CHECKING:
    from rich.text import Text

    from cortex_plane.audit.service import AuditReport


MOST_FINDINGS = 100


def print_entries(entries: Sequence[AuditRecord]) -> None:
    rows = [
        [
            words(record.seq),
            words(stamp(record.at)),
            words(record.entry.action),
            words(record.entry.actor or "-"),
            words(f"{record.entry.object_type} {record.entry.object_id}"),
            _remark(record),
        ]
        for record in entries
    ]
    console().print(one_line_each(["NUMBER", "TIME", "ACTION", "BY", "OBJECT", ""], rows, right=[0]))


def _remark(record: AuditRecord) -> Text:
    if record.entry.reason:
        return one_line(record.entry.reason)
    return one_line(dumps(record.entry.details) if record.entry.details else "", "dim")


def print_report(report: AuditReport) -> None:
    say = console()
    seals = report.seals - (report.pruned.seals if report.pruned else 0)
    covered = f"{_counted(report.sealed, 'entry', 'entries')} in {_counted(seals, 'seal', 'seals')}"
    say.print(words(f"{covered}; {_rest(report.unsealed)}."))
    if pruned := report.pruned:
        number = pruned.last_seal.partition(":")[0]
        gone = _counted(pruned.entries, "older one was", "older ones were")
        say.print(words(f"{gone} pruned by a retention rule, up to seal {number}, last at {stamp(pruned.at)}."))
    if report.sound:
        say.print(words("Nothing was changed since it was sealed.", "green"))
        return
    say.print(words(f"\n{_counted(len(report.findings), 'thing does', 'things do')} not fit:", "red"))
    rows = [
        [words(finding.seal), words("-" if finding.seq is None else finding.seq), words(sentence(finding))]
        for finding in report.findings[:MOST_FINDINGS]
    ]
    say.print(table(["SEAL", "ENTRY", "WHAT"], rows, right=[0, 1]))
    if len(report.findings) > MOST_FINDINGS:
        say.print(words(f"… and {len(report.findings) - MOST_FINDINGS:,} more; --json shows all.", "dim"))


def sentence(finding: SealFinding) -> str:
    match finding.kind:
        case FindingKind.ENTRY_CHANGED:
            return "The entry was changed after it was sealed."
        case FindingKind.ENTRY_MISSING:
            return "The entry was removed after it was sealed."
        case FindingKind.ENTRY_ADDED:
            return "The entry was added after its place had been sealed."
        case FindingKind.ENTRY_MOVED:
            return f"The entry was renumbered: it was sealed as {finding.was_seq}."
        case FindingKind.SEAL_CHANGED:
            return "The seal was changed; it proves nothing about its entries any more."
        case FindingKind.SEAL_MISSING:
            many = finding.last_seal is not None and finding.last_seal > finding.seal
            return f"The seals up to {finding.last_seal} are missing." if many else "The seal is missing."
        case FindingKind.SEAL_REPLACED:
            return "It is not the seal that you kept: everything up to here may have been made anew."
        case FindingKind.LINK_BROKEN:
            return "It does not follow the seal before it: one of them was made anew."
        case FindingKind.PRUNING_UNRECORDED:
            return "Entries up to this seal are marked as pruned, but no entry records that: they were removed by hand."
        case unknown:
            assert_never(unknown)


def _rest(unsealed: int) -> str:
    return f"{_counted(unsealed, 'newer one waits', 'newer ones wait')} to be sealed" if unsealed else "all are sealed"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


# -- audit -------------------------------------------------------------------------------------
# `cortex audit`: what was done, by whom, and whether the record of it is untouched.


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
    from cortex_plane.cli.output import print_json

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
    against: Annotated[Path | None, Parameter(metavar="FILE", help="Exported seals, one on each line.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Check that nobody changed what was recorded.

    Workers seal new entries every second, each seal bound to the one before. This finds every entry that was changed,
    removed, added or renumbered after it was sealed, and every seal that was. The exit code is 0 if nothing was, else 1.
    What a retention rule has pruned is told apart: how many entries, up to which seal, and when.
    Whoever can write to the database can cut off the end, or seal everything anew. To find that too, keep the last
    seal somewhere else, and name it the next time.

    Try:
        cortex audit verify
        cortex audit verify --against /mnt/elsewhere/seals.jsonl
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        report = await plane.audit.verify(known=[*([seal] if seal else []), *_exported(against)])
    if as_json:
        print_json(report_document(report))
    else:
        print_report(report)
        if report.sound and report.last_seal:
            next_step("To find a cut-off end too, keep this", f"cortex audit verify --seal {report.last_seal}", plane_url)
    return 0 if report.sound else EXIT_FOUND


async def export(target: str, /, *, plane_url: PlaneUrl = None) -> int:
    """Send seals elsewhere, so that a cut-off end is noticed.

    The target is file:PATH, https://… (each seal is posted), or s3+https://…/ (each is put as NUMBER.json). Workers
    do so by themselves where CORTEX_SEAL_EXPORT names a target. To compare later: cortex audit verify --against FILE

    Try:
        cortex audit export file:/mnt/elsewhere/seals.jsonl
    """
    from cortex_plane.settings import load_settings

    async with existing_plane(plane_url) as plane:
        sent = await plane.audit.export_seals(target, authorization=load_settings().seal_export_authorization)
    print(f"{sent:,} {'seal' if sent == 1 else 'seals'} sent.")
    return 0


def _exported(file: Path | None) -> list[str]:
    """The names of seals in an export: a line is JSON with `seal`, or the name alone."""
    if file is None:
        return []
    try:
        lines = file.read_text().splitlines()
        return [str(loads(line)["seal"]) if line.startswith("{") else line.strip() for line in lines if line.strip()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{file} holds no exported seals: {error}.", field="against") from None


def report_document(report: AuditReport) -> dict[str, object]:
    return {
        "sound": report.sound,
        "seals": report.seals,
        "sealed": report.sealed,
        "unsealed": report.unsealed,
        "last_seal": report.last_seal,
        "pruned": report.pruned,
        "findings": report.findings,
    }
