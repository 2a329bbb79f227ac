"""Runs that are started under a grant, from outside of the plane or by a schedule: what is asked, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal, NewType

from cortex_plane.core.errors import BudgetExhausted, Conflict, CortexError, Denied, InvalidInput, NotFound
from cortex_plane.core.grants import BillingAccountId, GrantId, GrantNotFound, GrantRefused
from cortex_plane.core.jobs import JobId, TenantId
from cortex_plane.core.states import JobStatus

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


class RunNotFound(NotFound):
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
