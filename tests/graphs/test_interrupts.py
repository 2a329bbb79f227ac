"""What people are shown of an interrupt, and what the node gets back, in each of the forms that graphs use."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.types import Interrupt

from cortex_plane.graphs.model import GraphAnswer
from cortex_plane.integrations.langgraph.executor import SUMMARY_LIMIT, question_of, resume_value

YES = GraphAnswer(True, "ada@example.com", "fine")
NO = GraphAnswer(False, "ada@example.com", "too risky")
MAIL = {"action": "mail", "args": {"to": "bob@example.com"}}
CHANGED = {"action": "mail", "args": {"to": "eve@example.com"}}


def human(**config: bool) -> dict[str, Any]:
    return {"action_request": MAIL, "config": config, "description": "Send the mail"}


def middleware(*allowed: str) -> dict[str, Any]:
    actions = [{"name": "mail", "args": {"to": "bob@example.com"}}]
    return {"action_requests": actions, "review_configs": [{"action_name": "mail", "allowed_decisions": allowed}]}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("Publish it?", ("Publish it?", None, False)),
        ({"question": "Publish it?", "poem": "…"}, ("Publish it?", {"question": "Publish it?", "poem": "…"}, False)),
        ([1, 2], ("The graph asks for a decision", [1, 2], False)),
        (None, ("The graph asks for a decision", None, False)),
        ([], ("The graph asks for a decision", [], False)),
        (human(), ("Send the mail", MAIL, False)),
        ([human(allow_edit=True)], ("Send the mail", MAIL, True)),
        ([human(allow_edit=True), human()], ("Send the mail", [MAIL, MAIL], False)),
        (middleware("approve", "edit"), ("Approve mail", {"name": "mail", "args": {"to": "bob@example.com"}}, True)),
        (middleware("approve"), ("Approve mail", {"name": "mail", "args": {"to": "bob@example.com"}}, False)),
    ],
)
def test_what_people_are_shown(value: Any, shown: tuple[str, Any, bool]) -> None:
    question = question_of(Interrupt(value, id="1"))

    assert (question.summary, question.details, question.editable) == shown


def test_a_long_text_is_cut_in_the_summary_and_whole_in_the_details() -> None:
    text = "word " * 100

    question = question_of(Interrupt(text, id="1"))

    assert len(question.summary) == SUMMARY_LIMIT
    assert question.details == text


@pytest.mark.parametrize(
    ("value", "answer", "returned"),
    [
        ("Publish it?", NO, {"approved": False, "decided_by": "ada@example.com", "reason": "too risky", "details": None}),
        (human(), YES, {"type": "accept", "args": None}),
        ([human()], YES, [{"type": "accept", "args": None}]),
        ([human(allow_edit=True)], GraphAnswer(True, details=CHANGED), [{"type": "edit", "args": CHANGED}]),
        ([human(allow_edit=True)], GraphAnswer(True, details=MAIL), [{"type": "accept", "args": None}]),
        ([human()], GraphAnswer(True, details=CHANGED), [{"type": "accept", "args": None}]),
        ([human()], NO, [{"type": "ignore", "args": None}]),
        ([human(allow_respond=True)], NO, [{"type": "response", "args": "too risky"}]),
        (middleware("approve"), YES, {"decisions": [{"type": "approve"}]}),
        (middleware("approve"), NO, {"decisions": [{"type": "reject", "message": "too risky"}]}),
        (
            middleware("edit"),
            GraphAnswer(True, details={"name": "mail", "args": {}}),
            {"decisions": [{"type": "edit", "edited_action": {"name": "mail", "args": {}}}]},
        ),
    ],
)
def test_what_the_node_gets_back(value: Any, answer: GraphAnswer, returned: Any) -> None:
    assert resume_value(Interrupt(value, id="1"), answer) == returned
