"""The timeline of a job, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cortex_plane.clock import as_datetime
from cortex_plane.durations import span
from cortex_plane.jobs.model import HistoryEntry, JobId, Run
from cortex_plane.jobs.states import JobStatus
from cortex_plane.worker.model import actor_of

if TYPE_CHECKING:
    from cortex_plane.stores import Store

WORKERS_KNOWN = 500

PLAIN = {
    "submit": "submitted",
    "retry": "submitted, as the retry of another job",
    "resume": "goes on where another job stopped",
    "settle": "goes on after an uncertain call of another job was settled",
    "fork": "submitted, as the fork of another job",
    "hand_back": "handed back before it began",
    "interrupt": "its worker stopped; it goes on elsewhere",
    "ask": "asks people, and waits for them",
    "approve": "approved",
    "deny": "denied",
    "expire": "nobody decided in time",
    "sql": "changed by hand, in SQL",
}


@dataclass(frozen=True, slots=True)
class Timeline:
    """A job's history with what is needed to tell it."""

    entries: list[HistoryEntry]
    runs: list[Run]
    worker_names: Mapping[str, str]

    @classmethod
    async def of(cls, store: Store, job_id: JobId, *, with_names: bool = False) -> Timeline:
        """`with_names` looks up what the workers are called."""
        history, runs = await store.jobs.history(job_id), await store.jobs.runs(job_id)
        workers = await store.workers.list(limit=WORKERS_KNOWN) if with_names and runs else []
        return cls(history, runs, {actor_of(worker.id): worker.name for worker in workers})

    def describe(self, entry: HistoryEntry) -> str:
        run = next((run for run in self.runs if run.id == entry.run_id), None)
        details: dict[str, Any] = entry.metadata or {}
        match entry.cause, entry.new_status:
            case "claim", _:
                return f"attempt {run.attempt} begins" if run else "begins"
            case "complete", _:
                return f"done after {_took(run)}" if run else "done"
            case "fail", JobStatus.RETRY:
                return f"failed, {_next_try(details, entry.created_at)}: {_error(run)}"
            case "fail" | "rescue", JobStatus.FAILED:
                return f"failed{_and_then(details)}: {details.get('error_message') or _error(run)}"
            case "rescue", _:
                return "its worker was lost; it goes on elsewhere"
            case "cancel_requested", _:
                return "asked to end; it is called once more to clean up"
            case "cleanup_timed_out", _:
                return "ended by the plane: its cleanup did not end in time"
            case "cancel", _:
                return f"cancelled: {details['reason']}" if details.get("reason") else "cancelled"
            case "sleep", _ if details.get("next_retry_at"):
                return f"sleeping until {details['next_retry_at']}"
            case "call", _ if details.get("child"):
                return f"waiting for job {details['child']}"
            case "deadline_exceeded", _:
                return f"ended by the plane: {details.get('reason') or 'its deadline has passed'}"
            case cause, _:
                return PLAIN.get(cause, cause)

    def actor(self, entry: HistoryEntry) -> str:
        who = entry.actor or ""
        return f"worker {self.worker_names[who]}" if who in self.worker_names else who


def _took(run: Run) -> str:
    return span((run.finished_at or run.started_at) - run.started_at)


def _error(run: Run | None) -> str:
    return (run.error if run else None) or "no reason was given"


def _next_try(details: dict[str, Any], now: datetime) -> str:
    at = details.get("next_retry_at")
    if at is None:
        return "it will be tried again"
    due = as_datetime(at) if isinstance(at, int) else datetime.fromisoformat(at)
    return f"next try in {span(due - now)}"


def _and_then(details: dict[str, Any]) -> str:
    if details.get("retry_as"):
        return f", goes on as {details['retry_as']}"
    return ", no retries are left" if details.get("exhausted") else ""
