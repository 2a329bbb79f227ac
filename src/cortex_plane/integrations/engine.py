"""ENGINE_RUN: runs a workflow of another engine and waits for its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from cortex_plane.errors import InvalidInput, NotFound, did_you_mean
from cortex_plane.worker.failures import PermanentFailure

if TYPE_CHECKING:
    from cortex_plane.agents.agent import Agent
    from cortex_plane.durable.context import Context
    from cortex_plane.plane import Plane


class UnknownWorkflow(NotFound):
    """Raised by an engine that does not have the workflow. Retries do not help."""

    def __init__(self, workflow: str, known: Iterable[str] = ()) -> None:
        known = sorted(known)
        listed = f" Known workflows: {', '.join(known)}." if known else ""
        super().__init__(f'There is no workflow "{workflow}".{did_you_mean(workflow, known)}{listed}')
        self.workflow = workflow


class Engine(Protocol):
    async def run(self, workflow: str, input: Mapping[str, Any], ctx: Context) -> Any:  # noqa: A002 - the users' word
        """The workflow's output. Raises UnknownWorkflow."""


# -- engine ------------------------------------------------------------------------------------
# The agent ENGINE_RUN: `await plane.submit("ENGINE_RUN", {"workflow": "onboard", "input": {"user": "ada"}})`.


ENGINE_AGENT = "ENGINE_RUN"

Workflow = Callable[..., Awaitable[Any]]


def engine_agent(plane: Plane, engine: Engine, name: str = ENGINE_AGENT, **options: Any) -> Agent[..., Any]:
    """Adds an agent that runs workflows by name. `options` are those of `plane.agent`."""

    async def run(ctx: Context, workflow: str, input: Mapping[str, Any] | None = None) -> Any:  # noqa: A002
        _check(workflow, input)
        try:
            return await engine.run(workflow, input or {}, ctx)
        except UnknownWorkflow as error:
            raise PermanentFailure(str(error)) from error

    agent: Agent[..., Any] = plane.agent(name, **options)(run)
    return agent


def _check(workflow: Any, input: Any) -> None:  # noqa: A002
    if not isinstance(workflow, str) or not workflow:
        raise InvalidInput(f"workflow must be the name of a workflow, not {workflow!r:.60}.", field="workflow")
    if input is not None and not isinstance(input, Mapping):
        raise InvalidInput(f"input must be an object, not {input!r:.60}.", field="input")


class Workflows:
    """The simplest engine: async functions by name, each called with the context and the fields of its input."""

    def __init__(self, workflows: Mapping[str, Workflow]) -> None:
        self._workflows = dict(workflows)

    async def run(self, workflow: str, input: Mapping[str, Any], ctx: Context) -> Any:  # noqa: A002
        if workflow not in self._workflows:
            raise UnknownWorkflow(workflow, self._workflows)
        return await self._workflows[workflow](ctx, **input)
