"""How the audit log looks: as a list, and as a report of what does not fit its seals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from cortex_plane.adapters.cli.output import console, one_line, one_line_each, table, words
from cortex_plane.adapters.cli.times import stamp
from cortex_plane.core.audit import AuditRecord
from cortex_plane.core.audit_chain import Finding, FindingKind
from cortex_plane.ports.json_text import dumps

if TYPE_CHECKING:
    from rich.text import Text

    from cortex_plane.operations.verify_audit import AuditReport

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
    covered = f"{_counted(report.sealed, 'entry', 'entries')} in {_counted(report.seals, 'seal', 'seals')}"
    say.print(words(f"{covered}; {_rest(report.unsealed)}."))
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


def sentence(finding: Finding) -> str:
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
        case unknown:
            assert_never(unknown)


def _rest(unsealed: int) -> str:
    return f"{_counted(unsealed, 'newer one waits', 'newer ones wait')} to be sealed" if unsealed else "all are sealed"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
