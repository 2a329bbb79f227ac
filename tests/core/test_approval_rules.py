"""What may be asked, what may be changed before it is approved, and what follows: tables and properties."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from time import monotonic
from typing import Any, Literal, Optional
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from cortex_plane.agents.model import AgentConfig
from cortex_plane.approvals.decisions import edited
from cortex_plane.approvals.model import ApprovalId, Approvers, NewApproval, digest_of
from cortex_plane.approvals.rules import (
    ApprovalConfig,
    checked_reason,
    duration,
    expiry_message,
    new_approval,
    outcome_of_expiry,
    resumes_job,
)
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import AgentId, JobId, RunId, TenantId
from cortex_plane.json import Json, dumps, loads
from cortex_plane.json_schema import check_document, check_schema
from cortex_plane.people.model import UserGroupId, UserId


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
        check_schema=check_schema,
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
        ("ttl", {"ttl_seconds": 366 * 86_400}),
        ("ttl", {"ttl_seconds": 7_200, "config": ApprovalConfig(max_ttl_seconds=3_600)}),
        ("remind", {"remind_after_seconds": -1}),
        ("remind", {"remind_after_seconds": 60, "ttl_seconds": 60}),
        ("remind", {"remind_after_seconds": 2 * 86_400}),
        ("escalate", {"escalate_after_seconds": 61, "escalate_to": Approvers((UserId("ann"),)), "ttl_seconds": 60}),
        ("escalate", {"escalate_after_seconds": 60}),
        ("escalate", {"escalate_to": Approvers((UserId("ann"),))}),
        ("on_expiry", {"on_expiry": "continue"}),
        ("on_denial", {"on_denial": "ignore"}),
        ("default", {"default": {1: 2}}),
        ("editable", {"editable": True, "quorum": 2}),
        ("editable", {"editable": ["image"], "details": [1]}),
        ("editable", {"editable": 7}),
        ("editable", {"editable": {"$ref": "https://example.com/schema.json"}}),
        ("editable", {"editable": {"$ref": "#/$defs/missing"}}),
        ("editable", {"editable": {"type": "text"}}),
        ("editable", {"editable": {"pattern": "("}}),
        ("editable", {"editable": {"pattern": r"(a)\1"}}),
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
        (ApprovalConfig(), 300 * 86_400, 300 * 86_400),
        (ApprovalConfig(max_ttl_seconds=3_600), None, 3_600),
        (ApprovalConfig(max_ttl_seconds=3_600), 3_600, 3_600),
        (ApprovalConfig(token_ttl_seconds=600), None, 600),
        (ApprovalConfig(max_ttl_seconds=3_000 * 86_400), 2_000 * 86_400, 2_000 * 86_400),
    ],
)
def test_a_request_is_valid_for_as_long_as_was_asked_for(config: ApprovalConfig, asked: float | None, seconds: float) -> None:
    assert approval(config=config, ttl_seconds=asked).ttl_seconds == seconds


def test_no_agent_may_exceed_the_ceiling_of_the_plane() -> None:
    assert ApprovalConfig(600, 1_200).under(1_200) == ApprovalConfig(600, 1_200)
    assert ApprovalConfig(600).under(1_200) == ApprovalConfig(600, 1_200)
    two_years, five_years = 63_072_000, 157_680_000
    assert ApprovalConfig(two_years).under(five_years) == ApprovalConfig(two_years, five_years)
    with pytest.raises(InvalidInput) as refused:
        ApprovalConfig(600, 1_201).under(1_200)
    assert refused.value.field == "approval.max_ttl_seconds"
    with pytest.raises(InvalidInput) as refused:
        ApprovalConfig(1_201).under(1_200)
    assert refused.value.field == "approval.token_ttl_seconds"


def test_a_wait_that_is_too_long_is_told_in_units_that_people_read() -> None:
    with pytest.raises(InvalidInput, match="ttl is 400 days, but the maximum for this agent is 365 days"):
        approval(ttl_seconds=400 * 86_400)


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
    assert edited(SHOWN, edits, editable, check_document) == expected


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
        edited(SHOWN, edits, editable, check_document)

    assert refused.value.field == field


class Place(BaseModel):
    zone: Literal["a", "b"]
    since: datetime | None = None


class Plan(BaseModel):
    """With what pydantic makes of a model: $defs, anyOf, formats, constraints."""

    id: UUID
    places: list[Place] = Field(min_length=1)
    budget: Decimal | None = None
    note: str | int = ""
    parent: Optional[Plan] = None  # noqa: UP045 - a name in quotes


PLANNED: Json = {"id": str(UUID(int=1)), "places": [{"zone": "a"}]}


@pytest.mark.parametrize(
    ("edits", "field"),
    [
        ({"id": str(UUID(int=2)), "places": [{"zone": "b", "since": "2026-01-05T09:00:00Z"}], "parent": PLANNED}, None),
        ({"id": str(UUID(int=1)), "places": [{"zone": "a"}], "budget": "12.50", "note": 7}, None),
        ({"id": "one", "places": [{"zone": "a"}]}, "details.id"),
        ({"id": str(UUID(int=1)), "places": []}, "details.places"),
        ({"id": str(UUID(int=1)), "places": [{"zone": "c"}]}, "details.places[0].zone"),
        ({"id": str(UUID(int=1)), "places": [{"zone": "a", "since": "yesterday"}]}, "details.places[0].since"),
        ({"id": str(UUID(int=1)), "places": [{}]}, "details.places[0].zone"),
    ],
)
def test_the_schema_of_any_pydantic_model_says_what_may_be_edited(edits: Any, field: str | None) -> None:
    editable = approval(details=PLANNED, editable=Plan.model_json_schema()).editable

    if field is None:
        assert edited(PLANNED, edits, editable, check_document) == edits
    else:
        with pytest.raises(InvalidInput) as refused:
            edited(PLANNED, edits, editable, check_document)
        assert refused.value.field == field


def test_a_pattern_made_to_hurt_is_matched_in_linear_time() -> None:
    editable = approval(editable={"type": "object", "properties": {"image": {"pattern": "^(a+)+$"}}}).editable

    began = monotonic()
    with pytest.raises(InvalidInput):
        edited(SHOWN, {"image": "a" * 50_000 + "!"}, editable, check_document)

    assert monotonic() - began < 5


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
    assert resumes_job(outcome_of_expiry(on_expiry), on_denial) is runs


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
        (34_560_001, "34560001 seconds"),
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
