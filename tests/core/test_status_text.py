"""How the status of a job is shown to people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cortex_plane.jobs.states import JobStatus, WaitReason, status_label, status_text

AT = datetime(2026, 1, 5, 9, 0, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reason", "details", "label", "text"),
    [
        (WaitReason.SLEEP, {"due_at": AT}, "SLEEPING", "sleeping until 2026-01-05 09:00:07 UTC"),
        (WaitReason.CHILD, {"child_id": "0199", "due_at": AT}, "WAITING_FOR_JOB", "waiting for job 0199"),
        (WaitReason.RETRY, {"retry": 2, "max_retries": 3, "due_at": AT}, "RETRY", "retry 2 of 3 at 2026-01-05 09:00:07 UTC"),
        (WaitReason.RETRY, {"max_retries": 0, "due_at": AT}, "RETRY", "to be tried again at 2026-01-05 09:00:07 UTC"),
        (WaitReason.WORKER_LOST, {}, "RESUMING", "resuming: its worker was lost"),
        (WaitReason.INTERRUPTED, {}, "RESUMING", "resuming: its worker stopped"),
    ],
)
def test_a_job_that_goes_on_later_says_what_it_waits_for(
    reason: WaitReason, details: dict[str, Any], label: str, text: str
) -> None:
    assert status_label(JobStatus.RETRY, reason) == label
    assert status_text(JobStatus.RETRY, reason, **details) == text


@pytest.mark.parametrize("reason", WaitReason)
def test_every_reason_has_words(reason: WaitReason) -> None:
    assert status_text(JobStatus.RETRY, reason, due_at=AT).strip()
    assert status_label(JobStatus.RETRY, reason).isupper()


@pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.RETRY])
def test_any_other_status_is_its_own_word(status: JobStatus) -> None:
    assert status_label(status, None) == status
    assert status_text(status, None) == status.lower().replace("_", " ")


@pytest.mark.parametrize("status", JobStatus)
def test_a_job_that_was_asked_to_end_says_since_when_until_it_has(status: JobStatus) -> None:
    text = status_text(status, None, cancel_requested_at=AT)

    assert (text == "cancelling since 2026-01-05 09:00:07 UTC") is not status.is_terminal
    assert (status_label(status, None, AT) == "CANCELLING") is not status.is_terminal
