"""Child jobs: submit, find, and end with their parent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from cortex_plane.agents.code import AgentCode
from cortex_plane.agents.model import AgentConfig
from cortex_plane.costs.service import check_budgets
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import INTERNAL_QUEUE, Claimed, Job, JobId
from cortex_plane.jobs.retry import RetryPolicy
from cortex_plane.jobs.submission import checked

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.durable.context import Context
    from cortex_plane.jobs.fields import Submission
    from cortex_plane.stores import Store


async def find_child(store: Store, child_id: JobId) -> Job | None:
    """None when it was not submitted yet."""
    end = await store.jobs.chain_end(child_id)
    return None if end is None else await store.jobs.get(end[0])


# -- submit child ------------------------------------------------------------------------------
# Submits a child of a running job, under an id that was durable before: doing so again changes nothing.


async def submit_child(
    store: Store, directory: Directory, parent: Claimed, asked: Submission, child_id: JobId, effect_root: str
) -> None:
    """A child belongs to its parent's tenant. `effect_root` is the id of the call: a job that replaces the parent and calls
    the child again derives the same invocation ids."""
    if asked.job_key is not None:
        raise InvalidInput("A child job takes no job_key: its parent waits for exactly this job.", field="job_key")
    child = replace(
        await checked(directory, lambda: child_id, asked),
        tenant_id=parent.tenant_id,
        parent_id=parent.job_id,
        effect_root=effect_root,
    )
    await check_budgets(store, directory, [child])
    await store.jobs.submit([child])


# -- callees -----------------------------------------------------------------------------------
# The agent parameter of `ctx.call` as a protocol, so that the type of the result is known.


Arguments = ParamSpec("Arguments")
Result_co = TypeVar("Result_co", covariant=True)


class Awaited(Protocol[Result_co]):
    async def result(self, timeout: float | None = None) -> Result_co: ...


class Callee(Protocol[Arguments, Result_co]):
    def submission(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Submission: ...

    def result_from(self, output: Any, name: str) -> Result_co: ...

    async def submit(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Awaited[Result_co]: ...


# -- children ----------------------------------------------------------------------------------
# Cancels the children of a job that failed or was cancelled, where they were to end with it.


CHILDREN_AGENT = "cortex.children"
CHILDREN_AGENT_CONFIG = AgentConfig(queue=INTERNAL_QUEUE, retry=RetryPolicy(max_retries=100))


def children_agent(store: Store) -> AgentCode:
    async def end_children(ctx: Context, parent_id: str) -> int:
        return await store.jobs.cancel_children(JobId(parent_id), f"job:{parent_id}", "its parent has ended")

    return AgentCode(CHILDREN_AGENT, end_children, "async", CHILDREN_AGENT_CONFIG)
