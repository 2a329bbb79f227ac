"""How long finished jobs are kept."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from cortex_plane.http.auth import ThePlane, require
from cortex_plane.http.idempotency import IdempotencyKey, created
from cortex_plane.http.inputs import IdPath, Name, ReasonQuery, WithReason
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.people.roles import Caller, Role
from cortex_plane.retention.model import LONGEST_KEEP, RetentionRule
from cortex_plane.retention.service import add_rule

router = APIRouter(prefix=f"{PREFIX}/retention", tags=["retention"])

ViewerOfAll = Annotated[Caller, require(Role.VIEWER, everywhere=True)]
AdminOfAll = Annotated[Caller, require(Role.ADMIN, everywhere=True)]
Ending = Literal["COMPLETED", "FAILED", "CANCELLED"]
LONGEST_SECONDS = LONGEST_KEEP.total_seconds()


class NewRule(WithReason):
    keep_seconds: float = Field(ge=0, le=LONGEST_SECONDS, description="So long after their end.", examples=[2_592_000])
    for_tenant: Name | None = Field(default=None, description="Otherwise for all tenants.")
    for_agent: Name | None = Field(default=None, description="Otherwise for all agents.")
    for_status: Literal["COMPLETED", "FAILED", "CANCELLED"] | None = Field(
        default=None, description="Otherwise however they end."
    )
    record: Literal["job", "worker", "direct_reservation", "schedule_run", "execution_request", "audit_log"] = Field(
        default="job", description="What is deleted, by its table."
    )


@router.get("")
async def list_rules(_caller: ViewerOfAll, plane: ThePlane) -> list[RetentionRule]:
    """Every rule. Without one, nothing is ever deleted; of several, the most specific holds."""
    return await plane.retention.list()


@router.post("", status_code=201, response_model=RetentionRule)
async def add(
    request: Request, caller: AdminOfAll, plane: ThePlane, body: NewRule, idempotency_key: IdempotencyKey = None
) -> Response:
    """Adds a rule: jobs that it covers are deleted, with all that is recorded of them, so long after their end."""

    async def work(ids: NewId) -> RetentionRule:
        return await add_rule(
            plane.store,
            plane.directory,
            ids,
            body.keep_seconds,
            tenant=body.for_tenant,
            agent=body.for_agent,
            status=body.for_status,
            record=body.record,
            actor=caller.name,
            reason=body.reason,
        )

    return await created(request, caller, idempotency_key, RetentionRule, work)


@router.delete("/{rule_id}")
async def remove(caller: AdminOfAll, plane: ThePlane, rule_id: IdPath, reason: ReasonQuery = None) -> RetentionRule:
    """Removes a rule. What it has deleted does not come back."""
    return await plane.retention.remove(rule_id, actor=caller.name, reason=reason)
