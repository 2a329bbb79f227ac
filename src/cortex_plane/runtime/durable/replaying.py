"""Runs a handler against what is recorded of a job, without doing or writing anything, and says where the two part."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NoReturn

from cortex_plane.core.approvals import ApprovalId
from cortex_plane.core.checkpoints import Checkpoint
from cortex_plane.core.errors import CodeChanged
from cortex_plane.core.jobs import Claimed, Job, JobId, RunId
from cortex_plane.core.states import JobStatus
from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.json_text import encode, loads
from cortex_plane.ports.store import Checkpoints
from cortex_plane.runtime.agents import AgentCode
from cortex_plane.runtime.context import Context
from cortex_plane.runtime.durable.recorder import DEFAULT_SIZES, Recorder, Services
from cortex_plane.runtime.durable.resuming import resume
from cortex_plane.runtime.durable.suspending import AwaitChild, RunStopped, Suspension
from cortex_plane.runtime.reporter import Reporter

Verdict = Literal["same", "ongoing", "different"]


@dataclass(frozen=True, slots=True)
class Replay:
    """`same`: the code came to the same end. `ongoing`: it asked for everything that is recorded, and would now do something
    new. `different`: it did not; `message` says where it parted."""

    verdict: Verdict
    answered: int
    message: str


class NewWork(BaseException):
    """The handler asks for something that is not recorded."""

    def __init__(self, name: str) -> None:
        self.name = name


class Silent(Reporter):
    def __init__(self) -> None:
        pass

    def tell(self, *_: Any) -> None:
        pass


async def replay(checkpoints: Checkpoints, job: Job, agent: AgentCode, clock: Clock, new_id: NewId) -> Replay:
    with TemporaryDirectory(prefix="cortex-replay-") as folder:
        services = _services(clock, new_id, Path(folder))
        claimed = _claimed(job, new_id)
        continuing = replace(agent, on_prompt_change="continue")
        recorder = await resume(checkpoints, claimed, continuing, job.agent_id, services)
        context = Context.of(claimed)
        context.recorder, context.lent = recorder, services
        recorded = len(recorder.journal.unasked)
        verdict, message = await _compared(context, recorder, agent, job)
        return Replay(verdict, recorded - len(recorder.journal.unasked), message)


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
    """What the handler returns, as it would be stored."""
    recorder.scopes.adopt()
    return loads(encode(await agent.handler(context, **payload), "result"))


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
    """What is recorded and was not asked for, though nothing around it answered for it."""
    unasked = recorder.journal.unasked
    rest = [(entry["order"], key) for key, entry in unasked.items() if _is_wanted(recorder, key)]
    return ", ".join(key for _, key in sorted(rest))


def _is_wanted(recorder: Recorder, key: str) -> bool:
    outer = [key[:place] for place, char in enumerate(key) if char == "/"]
    answered = any(other in recorder.journal.entries and other not in recorder.journal.unasked for other in outer)
    return not answered and not key.rpartition("/")[2].startswith("$")


def _services(clock: Clock, new_id: NewId, files: Path) -> Services:
    async def save(checkpoint: Checkpoint) -> None:
        raise AssertionError("a replay writes nothing")

    def nothing_new(moment: str, name: str) -> NoReturn:
        raise NewWork(name)

    async def unreachable(*_: Any) -> Any:
        raise AssertionError("a replay calls nobody")

    async def awaited(child_id: JobId) -> NoReturn:
        raise AwaitChild(child_id)

    async def undecided(_: ApprovalId) -> NoReturn:
        raise Suspension

    return Services(
        save=save,
        submit=unreachable,
        child=awaited,
        approvers=unreachable,
        approval=undecided,
        clock=clock,
        new_id=new_id,
        random=lambda: 0.5,
        reporter=Silent(),
        files=files,
        sizes=DEFAULT_SIZES,
        fault=nothing_new,
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
        resumes=True,
    )
