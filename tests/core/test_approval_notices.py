"""What a request becomes for its addressee, and how each ending is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cortex_plane.approvals.decisions import mint
from cortex_plane.approvals.messages import closed_of, key_of, message_of, sent_of
from cortex_plane.approvals.model import NOBODY, ApprovalId, ApprovalRequest, Notification, Purpose, Superseded
from cortex_plane.jobs.model import AgentId, JobId, RunId, TenantId
from cortex_plane.people.model import UserId

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
TOKEN = mint(bytes(32))
REQUEST = ApprovalRequest(
    id=ApprovalId("0197a1b2-0000-7000-8000-000000000002"),
    job_id=JobId("0197a1b2-0000-7000-8000-000000000001"),
    run_id=RunId("0197a1b2-0000-7000-8000-000000000003"),
    agent_id=AgentId("0197a1b2-0000-7000-8000-000000000004"),
    agent="release-bot",
    tenant_id=TenantId("0197a1b2-0000-7000-8000-000000000005"),
    gate_key="approval",
    action_summary="Deploy 1.4.0",
    action_details={"image": "app:1.4.0"},
    digest="",
    designated=True,
    approvers=NOBODY,
    escalate_to=NOBODY,
    quorum=1,
    votes=0,
    no_self_approval=False,
    editable=False,
    on_expiry="fail",
    default=None,
    on_denial="fail",
    created_at=AT,
    expires_at=AT + timedelta(days=1),
    ttl_seconds=86_400.0,
    remind_at=None,
    reminders=0,
    escalate_at=None,
    escalated_at=None,
    decision=None,
    outcome=None,
    decided_by=None,
    decided_by_name=None,
    reason=None,
    edited_details=None,
    used_at=None,
    closed_at=None,
)


@pytest.mark.parametrize(
    ("purpose", "title"),
    [("ask", "Deploy 1.4.0"), ("remind", "Reminder: Deploy 1.4.0"), ("escalate", "Escalated to you: Deploy 1.4.0")],
)
def test_a_message_says_why_it_comes(purpose: Purpose, title: str) -> None:
    assert message_of(REQUEST, purpose, TOKEN, "https://plane.example.com").title == title


@pytest.mark.parametrize("public_url", ["https://plane.example.com/cortex", "https://plane.example.com/cortex/"])
def test_its_addresses_are_below_the_public_one(public_url: str) -> None:
    made = message_of(REQUEST, "ask", TOKEN, public_url)

    assert made.page_url == f"https://plane.example.com/cortex/approvals/{TOKEN.plaintext}"
    assert made.approve_url == f"https://plane.example.com/cortex/api/approvals/{TOKEN.plaintext}/approve"
    assert made.deny_url == f"https://plane.example.com/cortex/api/approvals/{TOKEN.plaintext}/deny"


@pytest.mark.parametrize(
    ("text", "title", "summary"),
    [
        ("Deploy", "Deploy", ""),
        ("Deploy\nAll tests passed.", "Deploy", "Deploy\nAll tests passed."),
        ("x" * 200, "x" * 200, "x" * 200),
    ],
)
def test_what_does_not_fit_into_the_title_is_in_the_summary(text: str, title: str, summary: str) -> None:
    made = message_of(replace(REQUEST, action_summary=text), "ask", TOKEN, "https://plane.example.com")

    assert (made.title, made.summary) == (title, summary)


def test_votes_are_counted_where_several_are_needed() -> None:
    made = message_of(replace(REQUEST, quorum=3, votes=1), "ask", TOKEN, "https://plane.example.com")

    assert made.summary == "3 approvals are needed; 1 so far."


@pytest.mark.parametrize(
    ("fields", "headline"),
    [
        ({"decision": "approved", "outcome": "approved", "decided_by_name": "Alice"}, "✅ Approved by Alice"),
        ({"decision": "denied", "outcome": "denied", "decided_by_name": "Alice"}, "❌ Denied by Alice"),
        ({"decision": "expired", "outcome": "failed"}, "⏰ Expired without a decision"),
        ({"decision": "expired", "outcome": "approved"}, "⏰ Expired without a decision"),
        ({"decision": None, "outcome": "cancelled"}, "🚫 Cancelled"),
    ],
)
def test_each_ending_has_its_headline(fields: dict[str, Any], headline: str) -> None:
    assert closed_of(replace(REQUEST, closed_at=AT, **fields)).headline == headline


def test_each_message_has_a_key_of_its_own_that_tells_nothing() -> None:
    one = Notification(UserId("u"), "telegram", "42", "7", {"chat_id": 42})
    others = [replace(one, user_account_id=UserId("v")), replace(one, channel_type="slack"), replace(one, message_id="8")]

    keys = {key_of(REQUEST, each) for each in (one, *others)}

    assert len(keys) == 4
    assert key_of(REQUEST, one) == key_of(REQUEST, replace(one, where=None, notification_sent_at=AT))
    assert sent_of(one).where == {"chat_id": 42}


EARLIER = Superseded(ApprovalId("0197a1b2-0000-7000-8000-000000000009"), REQUEST.job_id, "Ship 1.4.0", "approved", "Alice", AT)


def test_approvers_are_told_why_they_are_asked_again() -> None:
    message = message_of(replace(REQUEST, supersedes=EARLIER), "ask", TOKEN, "https://plane.example.com")

    assert "the agent's code has changed the wording of this request" in message.summary
    assert "The earlier request was approved by Alice; that decision does not apply to this one." in message.summary


def test_approvers_of_a_job_that_is_run_again_are_told_so() -> None:
    earlier = replace(EARLIER, job_id=JobId("0197a1b2-0000-7000-8000-00000000000a"), outcome="denied")

    message = message_of(replace(REQUEST, supersedes=earlier), "ask", TOKEN, "https://plane.example.com")

    assert "the job is run again. In its first run this was denied by Alice." in message.summary


def test_the_message_of_a_superseded_request_says_so() -> None:
    assert closed_of(replace(REQUEST, outcome="superseded", closed_at=AT)).headline == "🔁 Replaced by a newer request"
