"""Replays a handler against the record of a job without side effects, and reports where they differ."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from cortex_plane.durable.checkpoint import DEFAULT_SIZES, Recorder, RunServices
from cortex_plane.durable.context import Context
from cortex_plane.durable.resume import resume
from cortex_plane.durable.suspension import AwaitChild, RunStopped, Suspension
from cortex_plane.errors import CodeChanged
from cortex_plane.jobs.model import Claimed, Job, JobId, RunId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.json import dumps, loads
from cortex_plane.worker.reporter import Reporter

if TYPE_CHECKING:
    from cortex_plane.agents.code import AgentCode
    from cortex_plane.approvals.model import ApprovalId
    from cortex_plane.clock import Clock, Instant
    from cortex_plane.durable.schema import Checkpoint
    from cortex_plane.durable.store import CheckpointStore
    from cortex_plane.ids import NewId

Verdict = Literal["same", "ongoing", "different"]


@dataclass(frozen=True, slots=True)
class Replay:
    """`same`: the code came to the same end. `ongoing`: it requested every recorded call and would now do something new.
    `different`: it did not; `message` says where."""

    verdict: Verdict
    answered: int
    message: str
    fits: bool = True
    """False if a worker could not resume the job with this code, because the record contradicts it."""
    asks_again: tuple[str, ...] = ()
    """Approvals that the code words otherwise than they were shown: resuming the job would ask for them again."""


class NewWork(BaseException):
    """The handler makes a call that is not recorded."""

    def __init__(self, name: str) -> None:
        self.name = name


class Silent(Reporter):
    def __init__(self) -> None:
        pass

    def tell(self, *_: Any) -> None:
        pass


async def replay(checkpoints: CheckpointStore, job: Job, agent: AgentCode, clock: Clock, new_id: NewId) -> Replay:
    with TemporaryDirectory(prefix="cortex-replay-") as folder:
        reworded: list[str] = []
        services = _services(checkpoints, clock, new_id, Path(folder), reworded.append)
        claimed = _claimed(job, new_id)
        continuing = replace(agent, on_prompt_change="continue")
        recorder = await resume(checkpoints, claimed, continuing, job.agent_id, services)
        context = Context.of(claimed)
        context.recorder, context.services = recorder, services
        recorded = len(recorder.journal.unasked)
        verdict, message = await _compared(context, recorder, agent, job)
        if reworded:
            again = ", ".join(f'"{name}"' for name in reworded)
            message += f" Approval {again} is worded otherwise than it was shown: resuming the job would ask again."
        answered = recorded - len(recorder.journal.unasked)
        return Replay(verdict, answered, message, recorder.stopped is None, tuple(reworded))


async def _compared(context: Context, recorder: Recorder, agent: AgentCode, job: Job) -> tuple[Verdict, str]:
    try:
        output = await asyncio.create_task(_called(context, recorder, agent, job.payload))
    except NewWork as new:
        return _reached(recorder, job, f'the code asks for "{new.name}", which is not recorded')
    except Suspension:
        return _reached(recorder, job, "the code waits")
    except RunStopped as stopped:
        return "different", str(stopped.cause)
    except CodeChanged as changed:
        return "different", str(changed)
    except Exception as error:
        return _raised(recorder, job, error)
    return _returned(recorder, job, output)


async def _called(context: Context, recorder: Recorder, agent: AgentCode, payload: Mapping[str, Any]) -> Any:
    """Returns the handler's result in its stored form."""
    recorder.scopes.adopt()
    result = await agent.handler(context, **agent.types.decode(payload))
    return loads(dumps(agent.types.returns.encode(result, "result")))


def _reached(recorder: Recorder, job: Job, where: str) -> tuple[Verdict, str]:
    """The code would now do or await something."""
    if rest := _rest(recorder):
        return "different", f"Here {where}; recorded and not asked for: {rest}."
    if job.status is JobStatus.COMPLETED:
        return "different", f"Everything that is recorded was asked for, and the job completed there; now {where}."
    return "ongoing", f"Everything that is recorded was asked for. Now {where}."


def _raised(recorder: Recorder, job: Job, error: Exception) -> tuple[Verdict, str]:
    what = f"the code raised {type(error).__name__}: {error}"
    if rest := _rest(recorder):
        return "different", f"Here {what}; recorded and not asked for: {rest}."
    match job.status:
        case JobStatus.COMPLETED:
            return "different", f"The job completed; now {what}"
        case JobStatus.FAILED if (job.error or {}).get("type") != type(error).__qualname__:
            return "different", f"The job failed otherwise ({job.error_message}); now {what}"
        case JobStatus.FAILED:
            return "same", f"The code asked for the same steps, and failed as the job did: {what}"
        case _:
            return "ongoing", f"Everything that is recorded was asked for. Then {what}"


def _returned(recorder: Recorder, job: Job, output: Any) -> tuple[Verdict, str]:
    if rest := _rest(recorder):
        return "different", f"The code ends without asking for what is recorded: {rest}."
    match job.status:
        case JobStatus.COMPLETED if output != job.output:
            return "different", "The code asked for the same steps, and returns something else than the job did."
        case JobStatus.COMPLETED:
            return "same", "The code asked for the same steps, and came to the same end."
        case JobStatus.FAILED:
            return "different", f"The code asked for the same steps, and completes; the job failed: {job.error_message}"
        case _:
            return "ongoing", "Everything that is recorded was asked for. Now the code ends."


def _rest(recorder: Recorder) -> str:
    """Recorded calls that were not requested, except those inside a call that was answered from the record."""
    expected = recorder.journal.expected()
    rest = [(entry["order"], key) for key, entry in expected.items() if _is_wanted(recorder, key)]
    return ", ".join(key for _, key in sorted(rest))


def _is_wanted(recorder: Recorder, key: str) -> bool:
    outer = [key[:place] for place, char in enumerate(key) if char == "/"]
    answered = any(other in recorder.journal.entries and other not in recorder.journal.unasked for other in outer)
    return not answered and not key.rpartition("/")[2].startswith("$")


def _services(
    checkpoints: CheckpointStore, clock: Clock, new_id: NewId, files: Path, reworded: Callable[[str], None]
) -> RunServices:
    async def save(checkpoint: Checkpoint) -> None:
        raise AssertionError("a replay writes nothing")

    def nothing_new(moment: str, name: str) -> NoReturn:
        raise NewWork(name)

    async def unreachable(*_: Any) -> Any:
        raise AssertionError("a replay calls nobody")

    async def noted(*_: Any) -> bool:
        return True

    async def never(_: JobId) -> bool:
        return False

    async def awaited(child_id: JobId) -> NoReturn:
        raise AwaitChild(child_id)

    async def undecided(_: ApprovalId) -> NoReturn:
        raise Suspension

    async def now() -> Instant:
        return clock.now()

    return RunServices(
        checkpoints=checkpoints,
        trace=unreachable,
        save=save,
        submit=unreachable,
        submit_group=unreachable,
        child=awaited,
        resume_child=unreachable,
        adopt=unreachable,
        hold=unreachable,
        approvers=unreachable,
        approval=undecided,
        set_cleanup=noted,
        repeats=never,
        store_now=now,
        clock=clock,
        new_id=new_id,
        random=lambda: 0.5,
        reporter=Silent(),
        files=files,
        sizes=DEFAULT_SIZES,
        fault=nothing_new,
        reworded=reworded,
    )


def _claimed(job: Job, new_id: NewId) -> Claimed:
    return Claimed(
        job_id=JobId(job.id),
        run_id=RunId(new_id()),
        job_type=job.job_type,
        queue=job.queue,
        tenant_id=job.tenant_id,
        payload=job.payload,
        attempt=max(1, job.attempt),
        retry_count=job.retry_count,
        max_retries=job.max_retries,
        crash_count=job.crash_count,
        failed_runs=max(0, job.tries - 1),
        resumes=True,
    )
