"""Ends runs: applies their transitions, and finds out about those that did not apply."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.jobs import RunId
from cortex_plane.core.outcomes import Transition
from cortex_plane.ports.store import Store

log = structlog.get_logger()


async def finish_runs(store: Store, transitions: Sequence[Transition], actor: str) -> set[RunId]:
    """The runs whose transition is in the database. All others were superseded: a STALE_WRITE is recorded for each."""
    applied = await _applied(store, transitions, actor)
    refused = [transition for transition in transitions if transition.run_id not in applied]
    if not refused:
        return applied
    # The answer to an earlier try may have been lost: a run that we closed ourselves is not stale.
    closed = await store.queue.closed_runs([(transition.job_id, transition.run_id) for transition in refused])
    ours = {run_id for run_id, closed_by in closed.items() if closed_by == actor}
    await _record_stale(store, [transition for transition in refused if transition.run_id not in ours], actor)
    return applied | ours


async def _applied(store: Store, transitions: Sequence[Transition], actor: str) -> set[RunId]:
    plain = [transition for transition in transitions if transition.approval is None]
    applied = await store.queue.finish(plain, actor) if plain else set()
    for transition in transitions:
        if transition.approval is not None and await store.approvals.open(transition, transition.approval, actor):
            applied.add(transition.run_id)
    return applied


async def _record_stale(store: Store, stale: Sequence[Transition], actor: str) -> None:
    if not stale:
        return
    for transition in stale:
        log.warning("stale_write", job_id=transition.job_id, run_id=transition.run_id, wanted=transition.status)
    await store.audit.record(
        [
            AuditEntry("STALE_WRITE", "job", t.job_id, actor=actor, details={"run_id": t.run_id, "wanted": str(t.status)})
            for t in stale
        ]
    )
