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


class UnknownOption(InvalidInput, TypeError):
    """An option that there is not. Also a TypeError, as of any Python function that is called with it."""

    def __init__(self, taker: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        super().__init__(f'{taker} has no option "{name}".{did_you_mean(name, known)} Options: {", ".join(known)}.', field=name)


class Unavailable(CortexError):
    """Something that we need does not answer; trying again later may help.

    `by_statement`: the database answers, but not to this statement. Repeating others helps, repeating this one may not."""

    def __init__(self, message: str, *, by_statement: bool = False) -> None:
        super().__init__(message)
        self.by_statement = by_statement


class Contended(Unavailable):
    """Another transaction holds a lock that this one needs, or was preferred to it. Nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, by_statement=True)


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
        again = f"To run it again: cortex jobs retry {job_id}"
        if status != "COMPLETED":
            again = f"To go on where it stopped: cortex jobs resume {job_id}"
        super().__init__(f"Job {job_id} is already {status}. {again}")
        self.job_id, self.status = job_id, status


class NothingToResume(Conflict):
    """A job that has done all its work cannot go on."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"Job {job_id} is COMPLETED: nothing is left to do. To run it again from the beginning: cortex jobs retry {job_id}"
        )
        self.job_id = job_id


class StillRunning(Conflict):
    """A retry or resumption of something that has not ended, or whose latest successor has not."""

    def __init__(self, job_id: str, live_id: str, status: str) -> None:
        super().__init__(
            f"Job {job_id} is {status}; only a finished job can be retried or resumed. "
            f"To end it first: cortex jobs cancel {job_id}"
            if job_id == live_id
            else f"Job {job_id} already has a retry that is {status}: {live_id}. To follow it: cortex jobs watch {live_id}"
        )
        self.job_id, self.live_id, self.status = job_id, live_id, status


class JobNotQueued(Conflict):
    """Only a job that waits has a place in the queue."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(f"Job {job_id} is {status}; only a job that waits (PENDING or RETRY) can be moved.")
        self.job_id, self.status = job_id, status


class NotHeld(Conflict):
    """Only a job whose code does not fit is held, and can be released."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(f"Job {job_id} is {status} and not held for its code. To see why it waits: cortex jobs why {job_id}")
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
    """What a step or a tool call raised, as the handler sees it: the same when it happens and when it is replayed. `key` is the
    identity of the call in its job."""

    def __init__(self, step: str, error: dict[str, Any], key: str | None = None) -> None:
        super().__init__(f'Step "{step}" failed: {error.get("type")}: {error.get("message")}')
        self.step, self.error, self.key = step, error, key


class StepTimedOut(CortexError, TimeoutError):
    def __init__(self, step: str, seconds: float) -> None:
        super().__init__(f'Step "{step}" did not finish within {seconds:g} s.')
        self.step = step


class CodeChanged(Conflict):
    """The handler asks for something else than what is recorded, so its recorded steps cannot be continued."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step = step


class PromptChanged(CodeChanged):
    """The system prompt has changed since the job began, and the agent is to fail then."""


class KnownMisfit(CortexError):
    """The job was found not to fit this worker's code before; it is not tried again. `error` says where they differ."""

    def __init__(self, handed_back: int, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message")))
        self.handed_back, self.error = handed_back, error


class ApprovalChanged(Conflict):
    """What was approved is not what the handler asks for now, and it is not to be asked again."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f'"{name}" asks for something else now than what was shown to the approvers, so their decision does not hold for it. '
            f"It is not asked again: {why}. Summary and details must be the same each time the handler is called: take what "
            "changes from ctx.now(), ctx.random(), ctx.uuid() or a step."
        )
        self.name = name


class ApprovalAltered(Conflict):
    """The stored request is not what was shown to the approvers: somebody changed it in the database."""

    def __init__(self, name: str, request_id: str) -> None:
        super().__init__(
            f'What is stored of approval {request_id} ("{name}") is not what was shown to the approvers, so their decision does '
            "not hold. Find out who changed it in the database before you run the job again."
        )
        self.name, self.request_id = name, request_id


class ToolUncertain(Conflict):
    """A tool call was begun, and nobody knows whether it took effect.

    `doubt` is what it raised; None: its worker died or stopped. A handler may catch it and go on, with later
    steps and tools; the call stays recorded as uncertain."""

    def __init__(self, tool: str, invocation_id: str, doubt: str | None = None) -> None:
        super().__init__(
            f'Tool "{tool}" was called (invocation {invocation_id}), and nobody knows whether it took effect: '
            f"{doubt or 'its worker died or stopped in the middle of it'}. Look at the other side, then settle it: "
            f"cortex jobs settle ID {quote(tool)} --applied RESULT, or --not-applied. To decide by code instead, give the call "
            'verify=... or on_uncertain="rerun".'
        )
        self.tool, self.invocation_id, self.doubt = tool, invocation_id, doubt


class NeverAwaited(CortexError):
    """The handler returned without awaiting something durable that it had asked for."""


class CheckpointCorrupted(Conflict):
    """A stored checkpoint that must not be resumed from. `kind` says in one word what is wrong with it."""

    def __init__(self, kind: str, details: str) -> None:
        super().__init__(f"Checkpoint corruption detected: {details}")
        self.kind, self.details = kind, details
        self.known = False
        """This code met it before, in an earlier run of the job."""


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


class DatabaseConfigError(Unavailable):
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


LONGEST_NAME = 200


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Comparing takes the product of both lengths: a word that is longer than any name is compared with none."""
    close = get_close_matches(word, list(known), n=1) if len(word) <= LONGEST_NAME else []
    return f' Did you mean "{close[0]}"?' if close else ""


def check_options(taker: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises UnknownOption for the first option that `taker` does not take."""
    for name in given:
        if name not in known:
            raise UnknownOption(taker, name, known)
