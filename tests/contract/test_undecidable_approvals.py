"""An approval that too few people can decide is flagged at once: in `jobs why`, in the audit log, and by a webhook."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.approvals.model import Escalation
from cortex_plane.durable.context import Context
from cortex_plane.jobs.states import JobStatus
from cortex_plane.testing import TestPlane
from cortex_plane.webhooks.model import WEBHOOK_AGENT

pytestmark = pytest.mark.anyio


async def ask(plane: TestPlane, created_by: str | None = None, **gate: Any) -> str:
    @plane.agent("gate")
    async def handler(ctx: Context) -> None:
        await ctx.approval("Deploy", **gate)

    await plane.webhooks.add("https://example.com/hook", events=["approval.undecidable"])
    options: dict[str, Any] = {} if created_by is None else {"created_by": created_by}
    job = await plane.submit("gate", **options)
    await plane.work()
    return job.id


async def flagged(plane: TestPlane, job_id: str) -> dict[str, str | None]:
    """What each place says of it."""
    (request,) = await plane.approvals.list(job=job_id)
    why = {reason.code: reason.message for reason in await plane.jobs.why(job_id)}
    audit = [one.entry for one in await plane.store.audit.list(request.id) if one.entry.action == "APPROVAL_UNDECIDABLE"]
    told = [await plane.jobs.get(one.id) for one in await plane.jobs.list(agent=WEBHOOK_AGENT)]
    events = [one.payload["event"] for one in told if one.payload["event"]["type"] == "approval.undecidable"]
    return {
        "why": why.get("approval_undecidable"),
        "audit": audit[0].details["problem"] if audit else None,
        "webhook": events[0]["data"]["problem"] if events else None,
    }


async def nobody_has_the_role(plane: TestPlane) -> str:
    await plane.access.add_user("boss")
    await plane.access.give_role("boss", "admin")
    return await ask(plane)


async def the_quorum_is_larger_than_the_group(plane: TestPlane) -> str:
    await plane.people.add("ann")
    await plane.people.add_group("ops")
    await plane.people.join("ops", "ann")
    return await ask(plane, approvers="group:ops", quorum=3)


async def the_only_approver_is_the_submitter(plane: TestPlane) -> str:
    await plane.access.add_user("ann")
    await plane.access.give_role("ann", "approver")
    return await ask(plane, "user:ann", no_self_approval=True)


async def who_is_named_is_disabled(plane: TestPlane) -> str:
    await plane.people.add("ann")
    await plane.people.disable("ann")
    return await ask(plane, approvers="ann")


@pytest.mark.parametrize(
    ("way", "says"),
    [
        (nobody_has_the_role, "It needs 1 approval, but no one can decide"),
        (the_quorum_is_larger_than_the_group, "It needs 3 approvals, but only 1 person can decide"),
        (the_only_approver_is_the_submitter, "It needs 1 approval, but no one can decide"),
        (who_is_named_is_disabled, "It needs 1 approval, but no one can decide"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
async def test_an_approval_that_too_few_can_decide_is_flagged_at_once(plane: TestPlane, way: Any, says: str) -> None:
    found = await flagged(plane, await way(plane))

    assert all(text is not None and text.startswith(says) for text in found.values()), found


async def test_one_that_enough_people_can_decide_once_it_is_escalated_is_not_flagged(plane: TestPlane) -> None:
    await plane.people.add("ann")
    await plane.people.disable("ann")
    await plane.people.add("boss")

    found = await flagged(plane, await ask(plane, approvers="ann", escalate=Escalation("boss", 3600)))

    assert found == {"why": None, "audit": None, "webhook": None}


async def test_the_flag_goes_when_somebody_can_decide_and_comes_back_when_they_cannot(plane: TestPlane) -> None:
    job_id = await ask(plane)
    await plane.access.add_user("ann")

    await plane.access.give_role("ann", "approver")
    mended = {reason.code for reason in await plane.jobs.why(job_id)}
    await plane.people.disable("ann")

    assert "approval_undecidable" not in mended
    assert "approval_undecidable" in {reason.code for reason in await plane.jobs.why(job_id)}
    assert (await plane.jobs.get(job_id)).status is JobStatus.WAITING_FOR_APPROVAL
