"""The errors of Cortex Plane. Each message says what happened, to what, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from shlex import quote
from typing import Any


class CortexError(Exception):
    """Base class of all errors that Cortex Plane raises."""


class NotFound(CortexError):
    """The named resource does not exist, or belongs to another tenant."""


class Conflict(CortexError):
    """The state of the resource does not allow this operation."""


class InvalidInput(CortexError):
    """The caller's input is invalid. Nothing was changed. `field` names the invalid field, if there is one."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class UnknownOption(InvalidInput, TypeError):
    """The function or agent does not have this option. Also a TypeError, as for any unexpected keyword argument in Python."""

    def __init__(self, taker: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        super().__init__(f'{taker} has no option "{name}".{did_you_mean(name, known)} Options: {", ".join(known)}.', field=name)


class Unavailable(CortexError):
    """The database or another service does not answer. Retrying later may help.

    `by_statement`: the database works, but rejected this one statement. Retrying other statements helps; retrying this one may
    not."""

    def __init__(self, message: str, *, by_statement: bool = False) -> None:
        super().__init__(message)
        self.by_statement = by_statement


class Contended(Unavailable):
    """Another transaction holds a lock that this one needs, or won a deadlock. Nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, by_statement=True)


class Denied(CortexError):
    """The caller is not allowed to do this."""


class JobNotFound(NotFound):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"There is no job {job_id}. To list jobs: cortex jobs list")
        self.job_id = job_id


class AmbiguousJob(InvalidInput):
    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        super().__init__(
            f"{prefix} matches {len(matches)} or more jobs: {', '.join(matches[:3])}, … Give more characters of the id.",
            field="id",
        )


class RunNotFound(NotFound):
    """Without a job id, only the newest ended runs are searched. `by` is the option that names the job."""

    def __init__(self, run_id: str, *, of_a_job: bool, by: str = "--job ID") -> None:
        otherwise = f"among the newest 10,000. To find an older one, name its job too: {by}"
        super().__init__(f"There is no run {run_id} {'of this job.' if of_a_job else otherwise}")
        self.run_id = run_id


class AmbiguousRun(InvalidInput):
    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        super().__init__(
            f"{prefix} matches {len(matches)} or more runs: {', '.join(matches[:3])}, … Give more characters of the id.",
            field="id",
        )


class WorkerNotFound(NotFound):
    def __init__(self, asked: str) -> None:
        super().__init__(f"There is no worker {asked:.60}. To list workers: cortex workers list")
        self.asked = asked


class WorkerHasEnded(Conflict):
    def __init__(self, worker_id: str, name: str, standing: str) -> None:
        super().__init__(f"Worker {name} ({worker_id}) is {standing}. To list running workers: cortex workers list")
        self.worker_id = worker_id


class AmbiguousWorker(InvalidInput):
    def __init__(self, asked: str, matches: Sequence[str]) -> None:
        super().__init__(
            f"{asked} matches {len(matches)} workers: {', '.join(matches[:3])}, … Give more characters of the id.", field="id"
        )


class UnknownAgent(NotFound):
    def __init__(self, job_type: str, known: Iterable[str]) -> None:
        known = sorted(known)
        message = f'There is no agent "{job_type}".{did_you_mean(job_type, known)}'
        message += (
            f" Known agents: {', '.join(known)}."
            if known
            else " No agent has been registered yet: start a plane or a worker that has it."
        )
        super().__init__(message)
        self.job_type = job_type


class TenantNotFound(NotFound):
    def __init__(self, tenant: str) -> None:
        super().__init__(f'There is no tenant "{tenant}".')
        self.tenant = tenant


class AlreadyFinished(Conflict):
    def __init__(self, job_id: str, status: str) -> None:
        again = f"To run it again: cortex jobs retry {job_id}"
        if status != "COMPLETED":
            again = f"To resume it where it stopped: cortex jobs resume {job_id}"
        super().__init__(f"Job {job_id} is already {status}. {again}")
        self.job_id, self.status = job_id, status


class NothingToResume(Conflict):
    """A completed job cannot be resumed."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"Job {job_id} is COMPLETED and cannot be resumed. To run it again from the beginning: cortex jobs retry {job_id}"
        )
        self.job_id = job_id


class StillRunning(Conflict):
    """The job, or its latest retry, has not ended, so it cannot be retried or resumed."""

    def __init__(self, job_id: str, live_id: str, status: str) -> None:
        super().__init__(
            f"Job {job_id} is {status}; only a finished job can be retried or resumed. "
            f"To end it first: cortex jobs cancel {job_id}"
            if job_id == live_id
            else f"Job {job_id} already has a retry that is {status}: {live_id}. To follow it: cortex jobs watch {live_id}"
        )
        self.job_id, self.live_id, self.status = job_id, live_id, status


class JobNotQueued(Conflict):
    """The job is not in its queue, so it cannot be moved."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(f"Job {job_id} is {status}; only a waiting job (PENDING or RETRY) can be moved.")
        self.job_id, self.status = job_id, status


class NotHeld(Conflict):
    """The job cannot be released, because it is not held for changed code."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(
            f"Job {job_id} is {status} and is not held for changed code. To see why it waits: cortex jobs why {job_id}"
        )
        self.job_id, self.status = job_id, status


class RevisionChanged(Conflict):
    """The job has changed since the revision that the caller has seen."""

    def __init__(self, job_id: str, revision: int) -> None:
        super().__init__(f'Job {job_id} has changed since: it is at revision "{revision}". Read it again, then decide.')
        self.job_id, self.revision = job_id, revision


class QueueBusy(Conflict):
    """Another caller has reserved the queue."""

    def __init__(self, queue: str, holder: str) -> None:
        super().__init__(f'Queue "{queue}" is reserved by {holder}. To wait for it, pass wait=True, or try again later.')
        self.queue, self.holder = queue, holder


class LeaseLost(Conflict):
    """Another worker has taken over the job. Writes of this run are rejected."""

    def __init__(self, job_id: str, run_id: str) -> None:
        super().__init__(f"Run {run_id} of job {job_id} was superseded; its result is dropped.")
        self.job_id, self.run_id = job_id, run_id


class StepFailed(CortexError):
    """A step or a tool call failed. The handler gets the same error when the failure is replayed.

    `error` describes the original exception; `key` identifies the call within its job."""

    def __init__(self, step: str, error: dict[str, Any], key: str | None = None) -> None:
        super().__init__(f'Step "{step}" failed: {error.get("type")}: {error.get("message")}')
        self.step, self.error, self.key = step, error, key


class StepTimedOut(CortexError, TimeoutError):
    def __init__(self, step: str, seconds: float) -> None:
        super().__init__(f'Step "{step}" did not finish within {seconds:g} s.')
        self.step = step


class CodeChanged(Conflict):
    """The handler's calls differ from the recorded ones, so the job cannot resume from its checkpoint."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step = step


class PromptChanged(CodeChanged):
    """The system prompt has changed since the job started, and the agent is configured to fail in this case."""


class KnownMisfit(CortexError):
    """The job is known not to fit this worker's code, so it is not tried again. `error` says where they differ."""

    def __init__(self, handed_back: int, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message")))
        self.handed_back, self.error = handed_back, error


class ApprovalChanged(Conflict):
    """The handler requests something else than what was approved, and the approvers cannot be asked again."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f'"{name}" now requests something else than what was shown to the approvers, so their decision does not apply. '
            f"It is not asked again: {why}. Summary and details must be the same each time the handler is called: take values "
            "that change from ctx.now(), ctx.random(), ctx.uuid() or a step."
        )
        self.name = name


class ApprovalAltered(Conflict):
    """The stored approval request was changed in the database after it was shown to the approvers."""

    def __init__(self, name: str, request_id: str) -> None:
        super().__init__(
            f'The stored approval {request_id} ("{name}") differs from what was shown to the approvers, so their decision does '
            "not apply. Find out who changed it in the database before you run the job again."
        )
        self.name, self.request_id = name, request_id


class ToolUncertain(Conflict):
    """A tool call was started, and its outcome is unknown.

    `doubt` is the error that the call raised. It is None if the worker died or stopped during the call. A handler may catch this
    error and continue with other steps and tools; the call stays recorded as uncertain."""

    def __init__(self, tool: str, invocation_id: str, doubt: str | None = None) -> None:
        super().__init__(
            f'The outcome of tool "{tool}" (invocation {invocation_id}) is unknown: '
            f"{doubt or 'the worker died or stopped during the call'}. Check the external system, then settle the call: "
            f"cortex jobs settle ID {quote(tool)} --applied RESULT, or --not-applied. To decide in code instead, pass "
            'verify=... or on_uncertain="rerun" to the call.'
        )
        self.tool, self.invocation_id, self.doubt = tool, invocation_id, doubt


class NeverAwaited(CortexError):
    """The handler returned without awaiting a durable call that it had created."""


class CheckpointCorrupted(Conflict):
    """A stored checkpoint is damaged, so the job cannot resume from it. `kind` names the damage in one word."""

    def __init__(self, kind: str, details: str) -> None:
        super().__init__(f"Checkpoint corruption detected: {details}")
        self.kind, self.details = kind, details
        self.known = False
        """True if the same code failed on it in an earlier run of the job."""


class CheckpointTooLarge(InvalidInput):
    def __init__(self, size: int, limit: int, step: str) -> None:
        super().__init__(
            f'The checkpoint after step "{step}" is {size:,} bytes; the limit is {limit:,}. Keep large data elsewhere and '
            "store a reference, or raise CORTEX_CHECKPOINT_LIMIT_BYTES.",
            field="checkpoint",
        )
        self.size, self.limit, self.step = size, limit, step


class JobFailed(CortexError):
    """The job ended FAILED. Raised by `handle.result()`."""

    def __init__(self, job_id: str, message: str, error: object = None) -> None:
        super().__init__(message)
        self.job_id, self.error = job_id, error


class JobCancelled(CortexError):
    """The job ended CANCELLED. Raised by `handle.result()`."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id} was cancelled.")
        self.job_id = job_id


class ResultNotReady(CortexError, TimeoutError):
    """The job did not end in time. Raised by `handle.result(timeout=...)`."""

    def __init__(self, job_id: str, status: str, seconds: float) -> None:
        super().__init__(f"Job {job_id} is still {status} after {seconds:g} s. It continues; call result() again later.")
        self.job_id, self.status = job_id, status


class DatabaseConfigError(Unavailable):
    """The database cannot be used: its address is wrong, it is read-only, or its schema is too new or too old."""


class StorageFull(Unavailable):
    def __init__(self, where: str) -> None:
        super().__init__(f"The disk of {where} is full. Nothing was changed. Free some space and try again.")


class BudgetExhausted(Denied):
    """The budget of an agent or a tenant is spent, and it rejects new jobs."""

    def __init__(self, scope: str, label: str, spent_cents: int, budget_cents: int) -> None:
        super().__init__(
            f'{scope.capitalize()} "{label}" has spent {spent_cents:,} of its budget of {budget_cents:,} cents, so new jobs '
            f"are rejected; waiting jobs still run. To raise the budget: cortex budgets set CENTS --{scope} {quote(label)}"
        )
        self.scope, self.label, self.spent_cents, self.budget_cents = scope, label, spent_cents, budget_cents


class BudgetNotFound(NotFound):
    def __init__(self, scope: str, label: str) -> None:
        super().__init__(f'{scope.capitalize()} "{label}" has no budget. To list budgets: cortex budgets list')
        self.scope, self.label = scope, label


class TenantExists(Conflict):
    def __init__(self, tenant: str) -> None:
        super().__init__(f'Tenant "{tenant}" already exists. To show it: cortex tenants show {quote(tenant)}')
        self.tenant = tenant


class RuleExists(Conflict):
    def __init__(self) -> None:
        super().__init__(
            "A retention rule for the same jobs already exists. To list rules: cortex retention list\n"
            "To change it, remove it and add it again: cortex retention remove ID"
        )


class AmbiguousRule(InvalidInput):
    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        super().__init__(
            f"{prefix} matches {len(matches)} rules: {', '.join(matches[:3])}. Give more characters of the id.", field="id"
        )


class RuleNotFound(NotFound):
    def __init__(self, rule_id: str) -> None:
        super().__init__(f"There is no retention rule {rule_id}. To list rules: cortex retention list")
        self.rule_id = rule_id


LONGEST_NAME = 200


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint with the closest known name, or "".

    Comparison takes time proportional to the product of both lengths, so words longer than any name are not compared."""
    close = get_close_matches(word, list(known), n=1) if len(word) <= LONGEST_NAME else []
    return f' Did you mean "{close[0]}"?' if close else ""


def check_options(taker: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises UnknownOption for the first option in `given` that is not in `known`."""
    for name in given:
        if name not in known:
            raise UnknownOption(taker, name, known)
