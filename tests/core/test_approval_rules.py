"""What may be asked, what may be changed before it is approved, and what follows: tables and properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.core.agents import AgentConfig
from cortex_plane.core.approval_config import ApprovalConfig
from cortex_plane.core.approval_edits import edited
from cortex_plane.core.approval_rules import checked_reason, duration, expiry_message, goes_on, new_approval, outcome_of_expiry
from cortex_plane.core.approvals import ApprovalId, Approvers, NewApproval, digest_of
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import AgentId, JobId, RunId, TenantId
from cortex_plane.core.normal_json import Json
from cortex_plane.core.people import UserGroupId, UserId
from cortex_plane.ports.json_text import dumps, loads


def _storable(value: Any) -> bool:
    try:
        digest_of(TenantId("t"), JobId("j"), "g", "s", value)
    except InvalidInput:
        return False
    return True


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
).filter(_storable)


def approval(**fields: Any) -> NewApproval:
    values: dict[str, Any] = {"summary": "Deploy", "details": {"image": "shop:1", "replicas": 3}, **fields}
    return new_approval(
        request_id=ApprovalId("request"),
        job_id=JobId("job"),
        run_id=RunId("run"),
        agent_id=AgentId("agent"),
        tenant_id=TenantId("tenant"),
        gate_key=values.pop("gate_key", "approval"),
        token_hash="0" * 64,
        **values,
    )


# -- the digest ----------------------------------------------------------------------------------


@given(JSON)
def test_the_digest_survives_a_round_trip_through_a_store(details: Any) -> None:
    request = approval(details=details)

    stored = loads(dumps(request.action_details))

    assert digest_of(request.tenant_id, request.job_id, request.gate_key, request.action_summary, stored) == request.digest


@pytest.mark.parametrize(
    "fields", [{"summary": "Deplox"}, {"details": {"image": "shop:2", "replicas": 3}}, {"gate_key": "other"}]
)
def test_the_digest_differs_with_everything_that_is_shown(fields: dict[str, Any]) -> None:
    assert approval(**fields).digest != approval().digest


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert approval(details={"b": 1, "a": 2}).digest == approval(details={"a": 2, "b": 1}).digest


# -- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("summary", {"summary": ""}),
        ("summary", {"summary": "  "}),
        ("summary", {"summary": 7}),
        ("summary", {"summary": "x" * 2001}),
        ("name", {"gate_key": ""}),
        ("details", {"details": float("nan")}),
        ("details.image", {"details": {"image": object()}}),
        ("quorum", {"quorum": 0}),
        ("quorum", {"quorum": True}),
        ("quorum", {"quorum": 1.0}),
        ("quorum", {"quorum": 2, "approvers": Approvers((UserId("ann"),))}),
        ("quorum", {"quorum": 2, "approvers": Approvers((UserId("ann"), UserId("ann")))}),
        ("ttl", {"ttl_seconds": 0}),
        ("ttl", {"ttl_seconds": float("inf")}),
        ("remind_after", {"remind_after_seconds": -1}),
        ("escalate", {"escalate_after_seconds": 60}),
        ("escalate", {"escalate_to": Approvers((UserId("ann"),))}),
        ("on_expiry", {"on_expiry": "continue"}),
        ("on_denial", {"on_denial": "ignore"}),
        ("default", {"default": {1: 2}}),
        ("editable", {"editable": True, "quorum": 2}),
        ("editable", {"editable": ["image"], "details": [1]}),
        ("editable", {"editable": 7}),
        ("editable", {"editable": {"$ref": "#"}}),
        ("editable.type", {"editable": {"type": "text"}}),
        ("editable.pattern", {"editable": {"pattern": "("}}),
    ],
)
def test_a_wrong_request_names_its_field(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        approval(**fields)

    assert refused.value.field == field


def test_a_quorum_of_a_group_cannot_be_judged_before_people_vote() -> None:
    assert approval(quorum=5, approvers=Approvers((), (UserGroupId("ops"),))).quorum == 5


@pytest.mark.parametrize(
    ("config", "asked", "seconds"),
    [
        (ApprovalConfig(), None, 86_400),
        (ApprovalConfig(), 60, 60),
        (ApprovalConfig(), 30 * 86_400, 604_800),
        (ApprovalConfig(max_ttl_seconds=3_600), None, 3_600),
        (ApprovalConfig(max_ttl_seconds=3_600), 7_200, 3_600),
        (ApprovalConfig(token_ttl_seconds=600), None, 600),
        (ApprovalConfig(max_ttl_seconds=30 * 86_400), 20 * 86_400, 604_800),
    ],
)
def test_a_request_is_valid_no_longer_than_its_agent_and_the_plane_allow(
    config: ApprovalConfig, asked: float | None, seconds: float
) -> None:
    assert approval(config=config, ttl_seconds=asked).ttl_seconds == seconds


def test_an_agents_limits_are_stored_with_it() -> None:
    config = AgentConfig(approval=ApprovalConfig(600, 1_200))

    assert AgentConfig.from_json(config.to_json()) == config
    assert AgentConfig.from_json({}).approval == ApprovalConfig()
    assert config.to_json()["approval"] == {"token_ttl_seconds": 600, "max_ttl_seconds": 1_200}


# -- edits ---------------------------------------------------------------------------------------

SHOWN: Json = {"image": "shop:1", "replicas": 3}
SCHEMA = {
    "type": "object",
    "required": ["image"],
    "additionalProperties": False,
    "properties": {
        "image": {"type": "string", "pattern": "^shop:", "maxLength": 10},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 5},
        "zones": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    },
}


@pytest.mark.parametrize(
    ("editable", "edits", "expected"),
    [
        (False, None, None),
        (False, {"replicas": 3, "image": "shop:1"}, None),
        (True, {"image": "shop:2"}, {"image": "shop:2"}),
        (["image"], {"image": "shop:2", "replicas": 3}, {"image": "shop:2", "replicas": 3}),
        (["image", "note"], {"replicas": 3, "note": "x"}, {"replicas": 3, "note": "x"}),
        (SCHEMA, {"image": "shop:2", "replicas": 5}, {"image": "shop:2", "replicas": 5}),
        (SCHEMA, {"image": "shop:2", "zones": ["a", "b"]}, {"image": "shop:2", "zones": ["a", "b"]}),
    ],
)
def test_edits_that_are_allowed(editable: Any, edits: Any, expected: Any) -> None:
    assert edited(SHOWN, edits, editable) == expected


@pytest.mark.parametrize(
    ("field", "editable", "edits"),
    [
        ("details", False, {"image": "shop:2", "replicas": 3}),
        ("details", True, ["image"]),
        ("details", True, "text"),
        ("details.replicas", ["image"], {"image": "shop:2", "replicas": 4}),
        ("details.replicas", ["image"], {"image": "shop:2"}),
        ("details.more", ["image"], {"image": "shop:1", "replicas": 3, "more": 1}),
        ("details", ["image"], "text"),
        ("details.image", SCHEMA, {"replicas": 3}),
        ("details.image", SCHEMA, {"image": 7}),
        ("details.image", SCHEMA, {"image": "other:1"}),
        ("details.image", SCHEMA, {"image": "shop:12345678"}),
        ("details.replicas", SCHEMA, {"image": "shop:1", "replicas": 6}),
        ("details.replicas", SCHEMA, {"image": "shop:1", "replicas": True}),
        ("details.replicas", SCHEMA, {"image": "shop:1", "replicas": 1.5}),
        ("details.other", SCHEMA, {"image": "shop:1", "other": 1}),
        ("details.zones[1]", SCHEMA, {"image": "shop:1", "zones": ["a", "c"]}),
        ("details.zones", SCHEMA, {"image": "shop:1", "zones": ["a", "b", "a"]}),
        ("details.image", True, {"image": float("nan")}),
    ],
)
def test_edits_that_are_not_allowed_name_what_is_wrong(field: str, editable: Any, edits: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        edited(SHOWN, edits, editable)

    assert refused.value.field == field


# -- what follows --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_expiry", "on_denial", "outcome", "runs"),
    [
        ("fail", "fail", "failed", False),
        ("fail", "raise", "failed", False),
        ("deny", "fail", "denied", False),
        ("deny", "raise", "denied", True),
        ("approve", "fail", "approved", True),
        ("default", "fail", "defaulted", True),
    ],
)
def test_what_expiry_means_for_the_job(on_expiry: Any, on_denial: Any, outcome: str, runs: bool) -> None:
    assert outcome_of_expiry(on_expiry) == outcome
    assert goes_on(outcome_of_expiry(on_expiry), on_denial) is runs


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (86_400, "24 hours"),
        (172_800, "2 days"),
        (3_600, "1 hour"),
        (5_400, "90 minutes"),
        (60, "1 minute"),
        (1, "1 second"),
        (90, "90 seconds"),
    ],
)
def test_durations_are_told_in_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text
    assert text in expiry_message("failed", seconds)


def test_an_empty_reason_is_none() -> None:
    assert checked_reason(" ") is None
    assert checked_reason("too late") == "too late"
    with pytest.raises(InvalidInput):
        checked_reason("x" * 2001)
