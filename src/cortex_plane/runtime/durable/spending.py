"""A job's own budget: once it is spent, people are asked before anything new is done.

What they grant is kept in the journal. Inside ctx.gather nobody can be asked: it is asked for what comes after.
"""

from __future__ import annotations

from cortex_plane.core.gates import Gate
from cortex_plane.runtime.durable.approving import ask_as
from cortex_plane.runtime.durable.recorder import Recorder


async def stay_in_budget(recorder: Recorder) -> None:
    budget, journal = recorder.config.budget_cents, recorder.journal
    if budget is None or recorder.scopes.here().in_gather:
        return
    while journal.spent[2] >= budget + sum(journal.granted_cents):
        key = f"$budget#{len(journal.granted_cents) + 1}"
        decision = await ask_as(recorder, key, _gate(recorder, budget), "budget")
        journal.granted_cents.append(decision.details["more_cents"])


def _gate(recorder: Recorder, budget: int) -> Gate:
    granted, spent = sum(recorder.journal.granted_cents), recorder.journal.spent[2]
    details = {"spent_cents": spent, "budget_cents": budget + granted, "more_cents": budget}
    fields = {name: {"const": value} for name, value in details.items()} | {"more_cents": {"type": "integer", "minimum": 1}}
    return Gate(
        f"Allow {recorder.claimed.job_type} to spend {budget:,} more cents? "
        f"This job has spent {spent:,} of its budget of {budget + granted:,}.",
        details,
        editable={"type": "object", "properties": fields, "required": sorted(fields), "additionalProperties": False},
    )
