"""Rows of schedules and slots as values, and the types that their stores share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from cortex_plane.clock import instant
from cortex_plane.grants.model import GrantId
from cortex_plane.jobs.model import NewJob, TenantId
from cortex_plane.json import dumps, loads
from cortex_plane.schedules.model import Schedule, ScheduleId, ScheduleTerms, Slot, SlotId, SlotOrigin
from cortex_plane.storage import rows
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.audit.model import AuditEntry
    from cortex_plane.storage.database import Row

MakeJob = Callable[[Schedule, datetime, SlotOrigin], NewJob]
"""The job of a slot: of a schedule, for an instant."""
Change = Callable[[Schedule, Slot | None, datetime], Schedule]
"""A pure change of a schedule, which is given its last slot and the time."""
DueRule = Literal["run", "skip"]
"""What becomes of slots that are due at a change and have not begun: the rule in force says which run; or none does."""


# -- schedule rows -----------------------------------------------------------------------------
# Schedules and slots, from rows and to the documents that both stores take.


def schedule_from(row: Row) -> Schedule:
    return Schedule(
        id=ScheduleId(str(row["id"])),
        tenant_id=TenantId(str(row["tenant_id"])),
        name=row["name"],
        grant_id=GrantId(str(row["grant_id"])),
        terms=_terms(row),
        source=row["source"],
        owner_id=rows.text_or_none(row["owner_id"]),
        enabled=bool(row["enabled"]),
        paused_by=row["paused_by"],
        paused_at=rows.moment_or_none(row["paused_at"]),
        pause_reason=row["pause_reason"],
        failures=row["failures"],
        next_run_at=rows.moment_or_none(row["next_run_at"]),
        last_run_at=rows.moment_or_none(row["last_run_at"]),
        slot_job_id=rows.text_or_none(row["slot_job_id"]),
        zone_data=row["zone_data"],
        created_by=row["created_by"],
        changed_by=row["changed_by"],
        removed_at=rows.moment_or_none(row["removed_at"]),
        removed_by=row["removed_by"],
        created_at=rows.moment(row["created_at"]),
        updated_at=rows.moment(row["updated_at"]),
    )


def _terms(row: Row) -> ScheduleTerms:
    return ScheduleTerms(
        graph_id=row["graph_id"],
        cron=row["cron"],
        timezone=row["timezone"],
        input=loads(row["input"]),
        missed=row["missed"],
        most_missed=row["most_missed"],
        overlap=row["overlap"],
        jitter_seconds=row["jitter_seconds"],
        starts_at=rows.moment_or_none(row["starts_at"]),
        ends_at=rows.moment_or_none(row["ends_at"]),
        pause_after_failures=row["pause_after_failures"],
    )


def slot_from(row: Row) -> Slot:
    return Slot(
        id=SlotId(str(row["id"])),
        schedule_id=ScheduleId(str(row["schedule_id"])),
        scheduled_for=rows.moment(row["scheduled_for"]),
        local_time=row["local_time"],
        origin=row["origin"],
        status=row["status"],
        reason=row["reason"],
        error_code=row["error_code"],
        error_message=row["error_message"],
        run_id=rows.text_or_none(row["run_id"]),
        trace_id=row["trace_id"],
        job_id=rows.text_or_none(row["job_id"]),
        replaced_by=rows.text_or_none(row["replaced_by"]),
        requested_by=row["requested_by"],
        started_at=rows.moment_or_none(row["started_at"]),
        completed_at=rows.moment_or_none(row["completed_at"]),
        created_at=rows.moment(row["created_at"]),
        timezone=row["timezone"],
        begin_by=rows.moment_or_none(row["begin_by"]),
    )


def schedule_document(schedule: Schedule) -> str:
    terms = schedule.terms
    return dumps(
        {
            "id": schedule.id,
            "tenant_id": schedule.tenant_id,
            "name": schedule.name,
            "owner_id": schedule.owner_id,
            "grant_id": schedule.grant_id,
            "graph_id": terms.graph_id,
            "input": terms.input,
            "cron": terms.cron,
            "timezone": terms.timezone,
            "missed": terms.missed,
            "most_missed": terms.most_missed,
            "overlap": terms.overlap,
            "jitter_seconds": terms.jitter_seconds,
            "starts_at": _instant(terms.starts_at),
            "ends_at": _instant(terms.ends_at),
            "pause_after_failures": terms.pause_after_failures,
            "source": schedule.source,
            "enabled": schedule.enabled,
            "paused_by": schedule.paused_by,
            "paused_at": _instant(schedule.paused_at),
            "pause_reason": schedule.pause_reason,
            "failures": schedule.failures,
            "next_run_at": _instant(schedule.next_run_at),
            "last_run_at": _instant(schedule.last_run_at),
            "slot_job_id": schedule.slot_job_id,
            "zone_data": schedule.zone_data,
            "created_by": schedule.created_by,
            "changed_by": schedule.changed_by,
        }
    )


def slot_documents(slots: Iterable[Slot]) -> str:
    return dumps([_slot(slot) for slot in slots])


def _slot(slot: Slot) -> dict[str, Any]:
    return {
        "id": slot.id,
        "schedule_id": slot.schedule_id,
        "scheduled_for": instant(slot.scheduled_for),
        "local_time": slot.local_time,
        "timezone": slot.timezone,
        "origin": slot.origin,
        "status": slot.status,
        "reason": slot.reason,
        "job_id": slot.job_id,
        "trace_id": slot.trace_id,
        "begin_by": _instant(slot.begin_by),
        "requested_by": slot.requested_by,
    }


def _instant(moment: datetime | None) -> int | None:
    return None if moment is None else instant(moment)


def record(*entries: AuditEntry) -> Transaction[None]:
    yield from query("audit/record", entries=dumps([entry.to_json() for entry in entries]))
