"""An agent as its author holds it: callable as written, and submittable with the same arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack

from cortex_plane.agents.code import AgentCode, check_positive
from cortex_plane.durable.context import Context
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.fields import Submission, SubmitOptions, check_submit_options
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import JobId

if TYPE_CHECKING:
    from cortex_plane.plane import Plane


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
StateMigration = Callable[[dict[str, Any]], dict[str, Any]]


class Agent(Generic[Arguments, Result]):
    def __init__(self, plane: Plane, code: AgentCode, options: SubmitOptions | None = None) -> None:
        self._plane = plane
        self._code = code
        self._options = options or {}
        self.name = code.job_type
        self.__doc__ = code.handler.__doc__

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    def __call__(self, ctx: Context, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Any:
        """The handler itself, for tests and for calls from another agent's code."""
        return self._code.handler(ctx, *args, **kwargs)

    async def submit(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> JobHandle[Result]:
        """Submits a job with these arguments; the context is left out."""
        connection = self._options.get("connection")
        job_ids = await self._plane.jobs.submit_checked([self.submission(*args, **kwargs)], connection)
        return JobHandle(self._plane.jobs, job_ids[0], self._code.types.returns)

    def job(self, job_id: str) -> JobHandle[Result]:
        """A handle for a job of this agent that was submitted earlier, or elsewhere. Its result has the agent's type."""
        return JobHandle(self._plane.jobs, JobId(job_id), self._code.types.returns)

    def result_from(self, output: Any, name: str) -> Result:
        """Decodes the JSON of a job's output according to the return annotation. `name` names the output in errors."""
        result: Result = self._code.types.returns.decode(output, name)
        return result

    def submission(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Submission:
        """The same, to be given to `plane.submit_many`."""
        payload = self._code.types.payload(args, kwargs)
        options: dict[str, Any] = {name: value for name, value in self._options.items() if name != "connection"}
        return Submission(self.name, payload, **options)

    def state_migration(self, from_version: int) -> Callable[[StateMigration], StateMigration]:
        """Registers how the working data of jobs that an older version of the code has begun becomes that of the next:
        `@release.state_migration(1)` over a function that takes the data and returns it changed."""
        check_positive(from_version, "from_version")
        if from_version in self._code.state_migrations:
            raise InvalidInput(f"Agent {self.name!r} has two migrations from version {from_version}.", field="from_version")

        def register(migration: StateMigration) -> StateMigration:
            self._code.state_migrations[from_version] = migration
            return migration

        return register

    def options(self, **options: Unpack[SubmitOptions]) -> Agent[Arguments, Result]:
        """The same agent, submitting with these options: `await release.options(priority=5).submit("1.4.0")`."""
        check_submit_options(f'Agent "{self.name}"', options)
        return Agent(self._plane, self._code, {**self._options, **options})


AsyncHandler = Callable[Concatenate[Context, Arguments], Awaitable[Result]]
PlainHandler = Callable[Concatenate[Context, Arguments], Result]
