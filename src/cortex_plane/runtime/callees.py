"""What `ctx.call` takes: an agent as its author holds it, known here by what it does, so that its result keeps its type."""

from __future__ import annotations

from typing import ParamSpec, Protocol, TypeVar

from cortex_plane.operations.submit_jobs import Submission

Arguments = ParamSpec("Arguments")
Result_co = TypeVar("Result_co", covariant=True)


class Awaited(Protocol[Result_co]):
    async def result(self, timeout: float | None = None) -> Result_co: ...


class Callee(Protocol[Arguments, Result_co]):
    def submission(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Submission: ...

    async def submit(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Awaited[Result_co]: ...
