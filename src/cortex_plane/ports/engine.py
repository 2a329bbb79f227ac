"""Somebody who executes named workflows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from cortex_plane.core.errors import NotFound, did_you_mean

if TYPE_CHECKING:
    from cortex_plane.runtime.context import Context


class UnknownWorkflow(NotFound):
    """Raised by an engine that was asked for something that it does not have. No retry helps."""

    def __init__(self, workflow: str, known: Iterable[str] = ()) -> None:
        known = sorted(known)
        listed = f" Known workflows: {', '.join(known)}." if known else ""
        super().__init__(f'There is no workflow "{workflow}".{did_you_mean(workflow, known)}{listed}')
        self.workflow = workflow


class Engine(Protocol):
    async def run(self, workflow: str, input: Mapping[str, Any], ctx: Context) -> Any:  # noqa: A002 - the users' word
        """The workflow's output. Raises UnknownWorkflow."""
