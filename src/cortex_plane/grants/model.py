"""Grants, scopes, execution requests, charges, and callers of the execution service.

Grants: under which scheduled work runs, instead of somebody's session. Scoped, revocable, and limited in time and number.

A scope names what may be run: `graph:execute:langgraph:poet`, `graph:execute:*`; for agents also `agent:run:report` and
`agent:run:*`, which say the same as `graph:execute:agent:report` and `graph:execute:agent:*`. A scope that ends in `*` holds
for everything that begins with the rest. Names may contain colons, so scopes are compared by their beginning and never split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal, NewType

from cortex_plane.errors import BudgetExhausted, Conflict, CortexError, Denied, InvalidInput, NotFound
from cortex_plane.jobs.model import JobId, TenantId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.people.roles import NotSignedIn, TooManyTries

GrantId = NewType("GrantId", str)
BillingAccountId = NewType("BillingAccountId", str)
GrantProblem = Literal["grant_not_found", "grant_revoked", "grant_expired", "grant_used_up", "scope_missing"]

GRAPHS = "graph:execute:"
AGENTS = "agent:run:"
AGENT_TARGET = "agent:"
TEMPLATE_TARGET = "template:"
EVERYTHING = "graph:execute:*"

MOST_SCOPES = 100
LONGEST_SCOPE = 300


@dataclass(frozen=True, slots=True)
class NewGrant:
    """A checked grant. `expires_at` is an instant."""

    id: GrantId
    tenant_id: TenantId
    billing_account_id: BillingAccountId
    scopes: tuple[str, ...]
    user_account_id: str | None = None
    expires_at: int | None = None
    max_uses: int | None = None
    created_by: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant as the database holds it. Without a user it is the installation's own, made by an operator or by code."""

    id: GrantId
    tenant_id: TenantId
    tenant: str
    user_account_id: str | None
    billing_account_id: BillingAccountId
    billing_account: str
    scopes: tuple[str, ...]
    expires_at: datetime | None
    max_uses: int | None
    uses: int
    revoked_at: datetime | None
    revoked_by: str | None
    revoke_reason: str | None
    created_by: str | None
    created_at: datetime


class GrantNotFound(NotFound):
    code: GrantProblem = "grant_not_found"

    def __init__(self, grant_id: str) -> None:
        super().__init__(f"There is no grant {grant_id}. To see what there is: cortex grants list")
        self.grant_id = grant_id


class GrantRefused(Denied):
    """The grant does not, or no longer, allow this."""

    def __init__(self, grant_id: str, code: GrantProblem, message: str) -> None:
        super().__init__(message)
        self.grant_id, self.code = grant_id, code


def problem_with(grant: Grant, now: datetime, graph_id: str) -> GrantRefused | None:
    """Why this grant does not allow a run of this graph now; None when it does."""
    if grant.revoked_at is not None:
        return GrantRefused(grant.id, "grant_revoked", f"Grant {grant.id} was revoked. {_NEW_GRANT}")
    if grant.expires_at is not None and grant.expires_at <= now:
        return GrantRefused(
            grant.id, "grant_expired", f"Grant {grant.id} expired at {grant.expires_at.isoformat()}. {_NEW_GRANT}"
        )
    if grant.max_uses is not None and grant.uses >= grant.max_uses:
        return GrantRefused(grant.id, "grant_used_up", f"Grant {grant.id} was good for {grant.max_uses} runs. {_NEW_GRANT}")
    return scope_problem(grant, graph_id)


def scope_problem(grant: Grant, graph_id: str) -> GrantRefused | None:
    if allows(grant.scopes, graph_id):
        return None
    message = (
        f"Grant {grant.id} does not allow {graph_id}: it has {', '.join(grant.scopes)}. "
        f"It would need {scope_of(graph_id)} or {EVERYTHING}."
    )
    return GrantRefused(grant.id, "scope_missing", message)


def allows(scopes: Iterable[str], graph_id: str) -> bool:
    return any(_covers(_canonical(scope), GRAPHS + graph_id) for scope in scopes)


def scope_of(graph_id: str) -> str:
    """The narrowest scope that allows it, in the form that people write."""
    if graph_id.startswith(AGENT_TARGET):
        return AGENTS + graph_id.removeprefix(AGENT_TARGET)
    return GRAPHS + graph_id


def check_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    if isinstance(scopes, str) or not isinstance(scopes, Sequence) or not 1 <= len(scopes) <= MOST_SCOPES:
        raise InvalidInput(f"scopes must be a list of 1 to {MOST_SCOPES} texts, such as {_EXAMPLES}.", field="scopes")
    return tuple(dict.fromkeys(_checked(scope) for scope in scopes))


def check_within(scopes: Iterable[str], held: Iterable[str]) -> None:
    """Nobody grants more than they hold."""
    holds = [_canonical(scope) for scope in held]
    for scope in scopes:
        if not any(_covers(one, _canonical(scope)) for one in holds):
            raise Denied(f"You cannot grant {scope}, because you do not hold it yourself. Ask somebody who does.")


def check_target(graph_id: str) -> str:
    """`agent:<name>`, `template:<name>`, or the id of a graph."""
    name = graph_id.removeprefix(AGENT_TARGET).removeprefix(TEMPLATE_TARGET) if isinstance(graph_id, str) else ""
    if not name.strip() or "*" in name or len(graph_id) > LONGEST_SCOPE - len(GRAPHS) or not graph_id.isprintable():
        raise InvalidInput(
            f'target must be "agent:NAME", "template:NAME" or the id of a graph, without *, not {graph_id!r:.80}.', field="target"
        )
    return graph_id


def _checked(scope: str) -> str:
    text = scope.strip() if isinstance(scope, str) else ""
    rest = text.removeprefix(GRAPHS) if text.startswith(GRAPHS) else text.removeprefix(AGENTS)
    if (
        not text.startswith((GRAPHS, AGENTS))
        or not rest
        or "*" in rest[:-1]
        or len(text) > LONGEST_SCOPE
        or not text.isprintable()
    ):
        raise InvalidInput(f"{scope!r:.80} is not a scope. Write {_EXAMPLES}; a * only at the end.", field="scopes")
    return text


def _canonical(scope: str) -> str:
    return GRAPHS + AGENT_TARGET + scope.removeprefix(AGENTS) if scope.startswith(AGENTS) else scope


def _covers(held: str, wanted: str) -> bool:
    return wanted.startswith(held[:-1]) if held.endswith("*") else wanted == held


_EXAMPLES = "graph:execute:NAME, graph:execute:*, agent:run:NAME or agent:run:*"
_NEW_GRANT = "To make another: cortex grants add SCOPE"


# -- execution ---------------------------------------------------------------------------------
# Runs that are started under a grant, from outside of the plane or by a schedule: what is asked, and what is answered.


RequestId = NewType("RequestId", str)
ChargeUnit = Literal["cents", "prompt_tokens", "completion_tokens"]
Progress = Literal["queued", "running", "waiting", "success", "error", "cancelled"]

PROGRESS: dict[JobStatus, Progress] = {
    JobStatus.PENDING: "queued",
    JobStatus.RETRY: "waiting",
    JobStatus.RUNNING: "running",
    JobStatus.WAITING_FOR_APPROVAL: "waiting",
    JobStatus.COMPLETED: "success",
    JobStatus.FAILED: "error",
    JobStatus.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A checked request to run something. `run_id` is the id of the job that it becomes."""

    id: RequestId
    tenant_id: TenantId
    idempotency_key: str
    request_hash: str
    graph_id: str
    grant_id: GrantId
    run_id: JobId
    trace_id: str
    service_name: str | None


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """A request as the database holds it, longer than the job that it became. `outcome` is set when that has ended."""

    id: RequestId
    tenant_id: TenantId
    idempotency_key: str
    request_hash: str
    graph_id: str
    grant_id: GrantId
    billing_account_id: BillingAccountId
    virtual_key_id: str
    run_id: JobId
    trace_id: str
    service_name: str | None
    outcome: JobStatus | None
    outcome_message: str | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Started:
    """`replayed`: the same request was made before, and this is the answer that it got then."""

    run_id: JobId
    trace_id: str
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class RunState:
    run_id: JobId
    trace_id: str
    progress: Progress
    error_code: str | None = None
    error_message: str | None = None

    @property
    def ended(self) -> bool:
        return self.progress in ("success", "error", "cancelled")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one attempt of a run has used of one unit."""

    run_id: JobId
    attempt: int
    unit: ChargeUnit
    quantity: int
    billing_account_id: BillingAccountId
    grant_id: GrantId
    virtual_key_id: str
    created_at: datetime
    updated_at: datetime


class ExecutionNotFound(NotFound):
    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no run {run_id} that was started under a grant.")
        self.run_id = run_id


class KeyReused(Conflict):
    """The same idempotency key came with another request; over HTTP this is 422."""

    def __init__(self, idempotency_key: str) -> None:
        super().__init__(
            f"The idempotency key {idempotency_key!r:.120} was used for another request. "
            "Send the same request again, or use a new key."
        )
        self.idempotency_key = idempotency_key


def request_hash(graph_id: str, grant_id: str, input_text: str) -> str:
    """Of everything that makes two requests the same; the input is JSON text in normal form."""
    return sha256("\n".join((graph_id, grant_id, input_text)).encode()).hexdigest()


def error_code(error: CortexError) -> str:
    """One word for programs: why a run was refused."""
    match error:
        case GrantRefused() | GrantNotFound():
            return error.code
        case KeyReused():
            return "key_reused"
        case BudgetExhausted():
            return "budget_exhausted"
        case NotFound():
            return "unknown_target"
        case InvalidInput():
            return "invalid_input"
        case Denied():
            return "denied"
        case Conflict():
            return "conflict"
        case _:
            return "error"


# -- service calls -----------------------------------------------------------------------------
# Other programs of the installation that call the execution service: how they are known, and how often they may call.


@dataclass(frozen=True, slots=True)
class ServiceCaller:
    """`name` is how it proved who it is. `service_name` is what it says of itself: only a signed token makes that certain."""

    name: str
    bucket: str
    service_name: str | None


class UnknownService(NotSignedIn):
    """One answer for everything that may be wrong: which part it is helps only those who guess."""

    def __init__(self) -> None:
        super().__init__(
            "The execution service does not know you. Call it with Authorization: Bearer, and its secret "
            "(CORTEX_INTERNAL_API_TOKEN) or a token that is signed with CORTEX_INTERNAL_JWT_SECRET, for it, and not expired."
        )


class TooManyRequests(TooManyTries):
    def __init__(self, most: int, seconds: float) -> None:
        super().__init__(seconds)
        self.most = most

    def __str__(self) -> str:
        return (
            f"The execution service takes {self.most:,} requests in a second from each caller. Slow down, or raise "
            "CORTEX_INTERNAL_API_REQUESTS_PER_SECOND."
        )


# -- billing -----------------------------------------------------------------------------------
# Who is charged for runs that are started under a grant, and what those have used.


DEFAULT_ACCOUNT = "default"


@dataclass(frozen=True, slots=True)
class BillingAccount:
    id: BillingAccountId
    tenant_id: TenantId
    tenant: str
    name: str
    default_virtual_key_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """What all runs of an account have used of one unit."""

    billing_account_id: BillingAccountId
    unit: ChargeUnit
    quantity: int
    runs: int


class BillingAccountNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f'There is no billing account "{name}". To see what there is: cortex billing list')
        self.name = name
