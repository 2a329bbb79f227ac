"""Where traces go. Without anybody who wants them there is no such thing, and nothing is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from cortex_plane.core.jobs import Claimed
from cortex_plane.core.outcomes import Outcome

Result = TypeVar("Result")


class Telemetry(Protocol):
    def submitting(self, agents: Sequence[str], parent: str | None) -> AbstractContextManager[str | None]:
        """A span around a submission; what it gives goes with the jobs, so that their runs belong to it."""

    def running(self, claimed: Claimed, trace: str | None, retried: str | None) -> AbstractContextManager[RunSpan]:
        """A span around a run, under the one that submitted its job. A retry is linked to what it retries."""

    async def working(self, kind: str, name: str, work: Awaitable[Result]) -> Result:
        """A span around the work of a step or a tool; what is answered from the record has none."""


RunSpan = Callable[[Outcome], None]
"""Is told how the run ended."""
