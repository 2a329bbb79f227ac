"""HTTP: /api/v1/grants, and the internal execution service with its authentication.

Which program of the installation is calling, for routes that are not for people: `caller: Annotated[…, service()]`.

a secret   Authorization: Bearer CORTEX_INTERNAL_API_TOKEN, or the other one while they are exchanged
a token    Authorization: Bearer eyJ…, a JWT that was signed for this service and has not expired

How often each may call is counted in the database, so that any number of servers count together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Depends, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from cortex_plane.clock import Instant
from cortex_plane.cursors import cursor_for
from cortex_plane.grants.execution import RunWish, look_at_run, start_run, stop_run
from cortex_plane.grants.execution_client import subject_of
from cortex_plane.grants.model import (
    DEFAULT_ACCOUNT,
    LONGEST_SCOPE,
    MOST_SCOPES,
    Grant,
    GrantId,
    Progress,
    ServiceCaller,
    TooManyRequests,
    UnknownService,
)
from cortex_plane.grants.service import GrantWish, add_grant, revoke_grant
from cortex_plane.graphs.http import GraphPath, RequiredKey, Traceparent, Wait
from cortex_plane.http.auth import Requirement, ThePlane, address_of, plane_of, refuse_unknown_parameters, require
from cortex_plane.http.idempotency import REPLAYED, IdempotencyKey, created
from cortex_plane.http.inputs import EXAMPLE_ID, Cursor, Id, IdPath, Input, Limit, Moment, Name, Page, Text, WithReason, id_in
from cortex_plane.http.lookups import grant_in
from cortex_plane.http.middleware import PREFIX
from cortex_plane.ids import NewId
from cortex_plane.jobs.model import JobId
from cortex_plane.people.login import limit_tries
from cortex_plane.people.model import UserId
from cortex_plane.people.roles import Caller, Role, digest
from cortex_plane.people.users import find_user_in
from cortex_plane.plane import Plane
from cortex_plane.schedules.http import GrantUses
from cortex_plane.settings import Settings
from cortex_plane.stores import Store

log = structlog.get_logger()

MOST_WRONG_SECRETS = 100
WINDOW_SECONDS = 1.0

ServiceName = Annotated[
    str | None, Header(max_length=200, description="Who calls, in its own words: it is logged, not believed.")
]


@dataclass(frozen=True, slots=True)
class ServiceKeys:
    """What callers of the execution service may show. Without any of them, nobody gets in."""

    secrets: tuple[str, ...] = field(repr=False)
    signing_secrets: tuple[str, ...] = field(repr=False)
    audience: str
    requests_per_second: int

    def caller(self, shown: str, said_name: str | None, now: Instant) -> ServiceCaller | None:
        """All secrets are compared, as hashes of one length and to their end: how long that takes tells nothing."""
        if sum(compare_digest(digest(shown), digest(secret)) for secret in self.secrets):
            return ServiceCaller("service:secret", f"service:{digest(shown)}", said_name)
        subject = subject_of(shown, self.signing_secrets, self.audience, now)
        if subject is None:
            return None
        return ServiceCaller(f"service:jwt:{subject[:100]}", f"service:jwt:{digest(subject)}", subject[:200])


def service_keys(settings: Settings) -> ServiceKeys:
    secrets = (settings.internal_api_token, settings.internal_api_previous_token)
    signing = (settings.internal_jwt_secret, settings.internal_jwt_previous_secret)
    return ServiceKeys(
        tuple(one for one in secrets if one),
        tuple(one for one in signing if one),
        settings.internal_jwt_audience,
        settings.internal_api_requests_per_second,
    )


async def _service(request: Request, x_service_name: ServiceName = None) -> ServiceCaller:
    plane, keys = plane_of(request), _keys_of(request)
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    known = keys.caller(shown.strip(), x_service_name, plane.clock.now()) if scheme.lower() == "bearer" else None
    store = plane.store
    if known is None:
        if "authorization" in request.headers:
            await limit_tries(store, f"service:from:{address_of(request)}", MOST_WRONG_SECRETS)
        raise UnknownService
    request.state.caller = known.name
    log.info("service.called", caller=known.name, said_to_be=x_service_name, route=request.scope["route"].path)
    await _limit(store, known, keys.requests_per_second)
    refuse_unknown_parameters(request)
    return known


_service.requirement = Requirement(service=True)  # type: ignore[attr-defined]


def service() -> Any:
    """Only programs of the installation that know its secret; no key and no session of anybody."""
    return Depends(_service)


async def _limit(store: Store, caller: ServiceCaller, most: int) -> None:
    hits, seconds_left = await store.http.hit(caller.bucket, WINDOW_SECONDS)
    if hits > most:
        raise TooManyRequests(most, seconds_left)


def _keys_of(request: Request) -> ServiceKeys:
    keys: ServiceKeys = request.app.state.service_keys
    return keys


# -- grants ------------------------------------------------------------------------------------
# Grants: under which work runs that nobody is signed in for.


router = APIRouter(prefix=f"{PREFIX}/grants", tags=["grants"])

Viewer = Annotated[Caller, require(Role.VIEWER)]
Operator = Annotated[Caller, require(Role.OPERATOR)]
Scope = Annotated[Text, Field(min_length=1, max_length=LONGEST_SCOPE)]


class GrantInput(Input):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"scopes": ["agent:run:report", "graph:execute:langgraph:*"], "max_uses": 100}]},
    )

    scopes: list[Scope] = Field(
        min_length=1,
        max_length=MOST_SCOPES,
        description="graph:execute:NAME, agent:run:NAME, with a * at the end for all that begin so.",
    )
    billing_account: Name = Field(default=DEFAULT_ACCOUNT, description="Who is charged.")
    expires_at: Moment | None = None
    max_uses: GrantUses | None = Field(default=None, description="How many runs it is good for; null for any number.")
    user: Name | None = Field(default=None, description="Who may start runs under it, besides operators.")


class RevokedGrant(BaseModel):
    grant: Grant
    schedules: int = Field(description="How many schedules were paused.")
    jobs: int = Field(description="How many jobs were cancelled, or asked to stop.")


@router.get("")
async def list_grants(caller: Viewer, plane: ThePlane, limit: Limit = 50, cursor: Cursor = None) -> Page[Grant]:
    """Newest first; those that are good for nothing any more, too."""
    before = id_in("grant", cursor)
    store = plane.store
    found = list(await store.grants.page(caller.tenant_id, None if before is None else GrantId(before), limit))
    return Page(items=found, next=cursor_for("grant", found[-1].id) if len(found) == limit else None)


@router.post("", status_code=201, response_model=Grant)
async def add_a_grant(
    request: Request, caller: Operator, plane: ThePlane, body: GrantInput, idempotency_key: IdempotencyKey = None
) -> Response:
    """Allows schedules and services to run something in your tenant. Nobody grants more than they hold: an operator holds
    everything of the tenant, others hold what was granted to them and cannot pass it on."""
    user_id = None if body.user is None else await _user_in(plane, caller, body.user)

    async def work(ids: NewId) -> Grant:
        grant_id = GrantId(ids())
        known = await plane.store.grants.get(grant_id)
        wish = GrantWish(
            body.scopes,
            caller.tenant,
            body.billing_account,
            body.expires_at,
            body.max_uses,
            user_id,
            created_by=caller.name,
            id=grant_id,
        )
        return known or await add_grant(plane.store, plane.directory, plane.clock, ids, wish)

    return await created(request, caller, idempotency_key, Grant, work, location="/api/v1/grants/{id}")


@router.get("/{grant_id}")
async def get_grant(caller: Viewer, plane: ThePlane, grant_id: IdPath) -> Grant:
    """One grant."""
    return await grant_in(plane, caller, grant_id)


@router.post("/{grant_id}/revoke")
async def revoke_a_grant(caller: Operator, plane: ThePlane, grant_id: IdPath, body: WithReason) -> RevokedGrant:
    """Its schedules pause, what waits under it is cancelled, what runs is asked to stop: at once."""
    grant = await grant_in(plane, caller, grant_id)
    revoked = await revoke_grant(plane.store, grant.id, actor=caller.name, reason=body.reason)
    return RevokedGrant(grant=revoked.grant, schedules=revoked.schedules, jobs=revoked.jobs)


async def _user_in(plane: Plane, caller: Caller, name: str) -> UserId:
    return (await find_user_in(plane.store, caller.tenant_id, name)).id


# -- execution ---------------------------------------------------------------------------------
# The execution service: what workers ask for the slots of schedules. They know nothing of graphs, and this writes no slots.
#
# The secret says that a caller is one of ours; what may run is said by the grant, which is validated here again.


execution_router = APIRouter(prefix="/api/internal", tags=["execution service"])

Service = Annotated[ServiceCaller, service()]


class InternalRun(Input):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"executionGrantId": EXAMPLE_ID, "input": {"topic": "the sea"}}]},
    )

    execution_grant_id: Id = Field(alias="executionGrantId")
    input: dict[str, Any] = Field(default={})
    schedule_id: Id | None = Field(default=None, alias="scheduleId", description="The schedule whose slot this is.")
    requested_by: list[Name] = Field(
        default=[], alias="requestedBy", max_length=20, description="Who stands behind it besides the grant's user, as they sign."
    )


class InternalResponse(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class RunStarted(InternalResponse):
    run_id: JobId
    trace_id: str
    ok: bool = True


class RunProgress(InternalResponse):
    run_id: JobId
    trace_id: str
    status: Progress
    ok: bool | None = Field(description="null while it goes on.")
    error_code: str | None = None
    error_message: str | None = None


class StoppedRun(InternalResponse):
    stopped: bool = Field(description="false when it had ended.")


@execution_router.post("/graphs/{graph_id:path}/runs", status_code=201)
async def start_internal_run(
    caller: Service,
    plane: ThePlane,
    response: Response,
    graph_id: GraphPath,
    body: InternalRun,
    idempotency_key: RequiredKey,
    traceparent: Traceparent = None,
) -> RunStarted:
    """Starts a run once, however often it is asked for with the same key; a request that comes while the same one is being
    carried out waits for it. The answer to a request that was made before says so in `Idempotency-Replayed`."""
    limit = plane.settings.payload_limit_bytes
    wish = RunWish(
        graph_id,
        idempotency_key,
        body.execution_grant_id,
        body.input,
        caller.service_name,
        traceparent,
        body.schedule_id,
        tuple(body.requested_by),
    )
    started = await start_run(plane.store, plane.directory, plane.clock, plane._ids, wish, payload_limit_bytes=limit)
    if started.replayed:
        response.headers[REPLAYED] = "true"
    return RunStarted(run_id=started.run_id, trace_id=started.trace_id)


@execution_router.get("/runs/{run_id}")
async def look_at_internal_run(caller: Service, plane: ThePlane, run_id: IdPath, wait: Wait = 0) -> RunProgress:
    """How a run goes, also when its job has been deleted since."""
    state = await look_at_run(plane.store, plane.clock, run_id, wait)
    return RunProgress(
        run_id=state.run_id,
        trace_id=state.trace_id,
        status=state.progress,
        ok=state.progress == "success" if state.ended else None,
        error_code=state.error_code,
        error_message=state.error_message,
    )


@execution_router.post("/runs/{run_id}/stop")
async def stop_internal_run(caller: Service, plane: ThePlane, run_id: IdPath, body: WithReason) -> StoppedRun:
    """Asks a run to stop. One that has ended stays as it is."""
    return StoppedRun(stopped=await stop_run(plane.store, run_id, actor=caller.name, reason=body.reason))
