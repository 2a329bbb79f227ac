"""One family of errors: what happened, to what, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from shlex import quote
from typing import Any


class CortexError(Exception):
    """Everything that Cortex Plane raises on purpose."""


class NotFound(CortexError):
    """What was named does not exist."""


class Conflict(CortexError):
    """The thing exists, but its state does not allow this."""


class InvalidInput(CortexError):
    """The caller's input is wrong; nothing was changed."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Unavailable(CortexError):
    """Something that we need does not answer; trying again later may help."""


class Denied(CortexError):
    """The caller may not do this."""


class JobNotFound(NotFound):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"There is no job {job_id}. To see what there is: cortex jobs list")
        self.job_id = job_id


class AmbiguousJob(InvalidInput):
    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        super().__init__(
            f"{prefix} fits {len(matches)} jobs or more: {', '.join(matches[:3])}, … Give more of the id.", field="id"
        )


class RunNotFound(NotFound):
    """Runs that have ended are kept with their job, and without it only the newest are found; `by` says how to name it."""

    def __init__(self, run_id: str, *, of_a_job: bool, by: str = "--job ID") -> None:
        otherwise = f"among the newest 10,000. To find an older one, name its job too: {by}"
        super().__init__(f"There is no run {run_id} {'of this job.' if of_a_job else otherwise}")
        self.run_id = run_id


class AmbiguousRun(InvalidInput):
    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        super().__init__(
            f"{prefix} fits {len(matches)} runs or more: {', '.join(matches[:3])}, … Give more of the id.", field="id"
        )


class WorkerNotFound(NotFound):
    def __init__(self, asked: str) -> None:
        super().__init__(f"There is no worker {asked:.60}. To see which there are: cortex workers list")
        self.asked = asked


class WorkerHasEnded(Conflict):
    def __init__(self, worker_id: str, name: str, standing: str) -> None:
        super().__init__(f"Worker {name} ({worker_id}) is {standing}. To see which live: cortex workers list")
        self.worker_id = worker_id


class AmbiguousWorker(InvalidInput):
    def __init__(self, asked: str, matches: Sequence[str]) -> None:
        super().__init__(f"{asked} fits {len(matches)} workers: {', '.join(matches[:3])}, … Give more of the id.", field="id")


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
        super().__init__(f"Job {job_id} is already {status}. To run it again: cortex jobs retry {job_id}")
        self.job_id, self.status = job_id, status


class StillRunning(Conflict):
    """A retry of something that has not ended, or whose latest retry has not."""

    def __init__(self, job_id: str, live_id: str, status: str) -> None:
        super().__init__(
            f"Job {job_id} is {status}; only a finished job can be retried. To end it first: cortex jobs cancel {job_id}"
            if job_id == live_id
            else f"Job {job_id} already has a retry that is {status}: {live_id}. To follow it: cortex jobs watch {live_id}"
        )
        self.job_id, self.live_id, self.status = job_id, live_id, status


class NotWaiting(Conflict):
    """Only a job that waits has a place in the queue."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(f"Job {job_id} is {status}; only a job that waits (PENDING or RETRY) can be moved.")
        self.job_id, self.status = job_id, status


class RevisionChanged(Conflict):
    """Whoever asks for a change has seen the job as it was before."""

    def __init__(self, job_id: str, revision: int) -> None:
        super().__init__(f'Job {job_id} has changed meanwhile: it is at revision "{revision}". Look at it again, then decide.')
        self.job_id, self.revision = job_id, revision


class QueueBusy(Conflict):
    """Somebody else holds the queue's one reservation."""

    def __init__(self, queue: str, holder: str) -> None:
        super().__init__(f'Queue "{queue}" is reserved by {holder}. Wait for your turn with wait=True, or try again later.')
        self.queue, self.holder = queue, holder


class LeaseLost(Conflict):
    """Another worker has taken over; nothing that this run writes will be kept."""

    def __init__(self, job_id: str, run_id: str) -> None:
        super().__init__(f"Run {run_id} of job {job_id} was superseded; its result is dropped.")
        self.job_id, self.run_id = job_id, run_id


class StepFailed(CortexError):
    """What a step or a tool call raised, as the handler sees it: the same when it happens and when it is replayed."""

    def __init__(self, step: str, error: dict[str, Any]) -> None:
        super().__init__(f'Step "{step}" failed: {error.get("type")}: {error.get("message")}')
        self.step, self.error = step, error


class StepTimedOut(CortexError, TimeoutError):
    def __init__(self, step: str, seconds: float) -> None:
        super().__init__(f'Step "{step}" did not finish within {seconds:g} s.')
        self.step = step


class CodeChanged(Conflict):
    """The handler asks for something else than what is recorded, so its recorded steps cannot be continued."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step = step


class ApprovalChanged(Conflict):
    """What was approved is not what the handler asks for now."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'"{name}" asks for something else now than what was shown to the approvers, so their decision does not hold for it. '
            "Summary and details must be the same each time the handler is called: take what changes from ctx.now(), "
            "ctx.random(), ctx.uuid() or a step. To ask anew: cortex jobs retry ID"
        )
        self.name = name


class ToolUncertain(Conflict):
    """A tool call was begun, and nobody knows whether it happened: a worker died in the middle of it."""

    def __init__(self, tool: str, invocation_id: str) -> None:
        super().__init__(
            f'Tool "{tool}" was called (invocation {invocation_id}) when a worker died, and nobody knows whether it took effect. '
            "Look at the other side, then fork or retry the job. To decide by code instead, give the call "
            'verify=... or on_uncertain="rerun".'
        )
        self.tool, self.invocation_id = tool, invocation_id


class CheckpointCorrupted(Conflict):
    """A stored checkpoint that must not be resumed from. `kind` says in one word what is wrong with it."""

    def __init__(self, kind: str, details: str) -> None:
        super().__init__(f"Checkpoint corruption detected: {details}")
        self.kind, self.details = kind, details


class CheckpointTooLarge(InvalidInput):
    def __init__(self, size: int, limit: int, step: str) -> None:
        super().__init__(
            f'The checkpoint after step "{step}" is {size:,} bytes; the limit is {limit:,}. Keep large data elsewhere and '
            "store a reference, or raise CORTEX_CHECKPOINT_LIMIT_BYTES.",
            field="checkpoint",
        )
        self.size, self.limit, self.step = size, limit, step


class JobFailed(CortexError):
    """Raised by `handle.result()` for a job that ended FAILED."""

    def __init__(self, job_id: str, message: str, error: object = None) -> None:
        super().__init__(message)
        self.job_id, self.error = job_id, error


class JobCancelled(CortexError):
    """Raised by `handle.result()` for a job that ended CANCELLED."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id} was cancelled.")
        self.job_id = job_id


class ResultNotReady(CortexError, TimeoutError):
    """Raised by `handle.result(timeout=...)` when the job goes on for longer."""

    def __init__(self, job_id: str, status: str, seconds: float) -> None:
        super().__init__(f"Job {job_id} is still {status} after {seconds:g} s. It goes on; ask again later.")
        self.job_id, self.status = job_id, status


class WrongDatabase(Unavailable):
    """The database cannot be used: wrong address, not a database, read-only, too new, too old."""


class StorageFull(Unavailable):
    def __init__(self, where: str) -> None:
        super().__init__(f"The disk that holds {where} is full. Nothing was changed; free some space and try again.")


class BudgetExhausted(Denied):
    """A budget that refuses is spent: no new jobs are taken for its agent or tenant."""

    def __init__(self, scope: str, label: str, spent_cents: int, budget_cents: int) -> None:
        super().__init__(
            f'{scope.capitalize()} "{label}" has spent {spent_cents:,} of its budget of {budget_cents:,} cents, so no new jobs '
            f"are taken for it; those that wait go on. To raise the budget: cortex budgets set CENTS --{scope} {quote(label)}"
        )
        self.scope, self.label, self.spent_cents, self.budget_cents = scope, label, spent_cents, budget_cents


class BudgetNotFound(NotFound):
    def __init__(self, scope: str, label: str) -> None:
        super().__init__(f'{scope.capitalize()} "{label}" has no budget. To see what there is: cortex budgets list')
        self.scope, self.label = scope, label


class TenantExists(Conflict):
    def __init__(self, tenant: str) -> None:
        super().__init__(f'There is a tenant "{tenant}" already. To look at it: cortex tenants show {quote(tenant)}')
        self.tenant = tenant


class RuleExists(Conflict):
    def __init__(self) -> None:
        super().__init__(
            "There is a retention rule for the same jobs already. To see it: cortex retention list\n"
            "To change it, remove it and add it anew: cortex retention remove ID"
        )


class AmbiguousRule(InvalidInput):
    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        super().__init__(f"{prefix} fits {len(matches)} rules: {', '.join(matches[:3])}. Give more of the id.", field="id")


class RuleNotFound(NotFound):
    def __init__(self, rule_id: str) -> None:
        super().__init__(f"There is no retention rule {rule_id}. To see what there is: cortex retention list")
        self.rule_id = rule_id


def did_you_mean(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f' Did you mean "{close[0]}"?' if close else ""
