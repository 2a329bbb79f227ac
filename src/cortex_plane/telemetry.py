"""W3C trace context, and the protocol through which spans are reported."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeVar

from cortex_plane.jobs.outcomes import Outcome

if TYPE_CHECKING:
    from cortex_plane.jobs.model import Claimed

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def trace_id_of(traceparent: str | None) -> str | None:
    """The trace id in a `traceparent` header. None if it is malformed: a wrong header is ignored, never an error."""
    found = _TRACEPARENT.fullmatch(traceparent.strip()) if isinstance(traceparent, str) else None
    return found[1] if found else None


def trace_from(unique: str) -> str:
    """A trace id derived from a UUID: the same object has the same trace everywhere."""
    return unique.replace("-", "").lower()


def traceparent_of(trace_id: str) -> str:
    """A `traceparent` with a span id derived from the trace id."""
    return f"00-{trace_id}-{trace_id[16:] if trace_id[16:].strip('0') else trace_id[:16]}-01"


def carried(kept: str | None) -> str | None:
    """The stored trace of a job as a `traceparent`. Accepts a traceparent or a trace id; None for anything else."""
    if kept is None or trace_id_of(kept) is not None:
        return kept and kept.strip()
    whole = traceparent_of(kept) if re.fullmatch(r"[0-9a-f]{32}", kept) else None
    return whole if trace_id_of(whole) else None


# -- telemetry ---------------------------------------------------------------------------------
# Without a tracer provider there is no Telemetry object, and tracing costs nothing.


Result = TypeVar("Result")


class Telemetry(Protocol):
    def submitting(self, agents: Sequence[str], parent: str | None) -> AbstractContextManager[str | None]:
        """A span around a submission. Yields the traceparent that is stored with the jobs."""

    def running(self, claimed: Claimed, trace: str | None, retried: str | None) -> AbstractContextManager[RunSpan]:
        """A span around a run, a child of the span that submitted the job. A retry is linked to the original job."""

    async def working(self, kind: str, name: str, work: Awaitable[Result]) -> Result:
        """A span around the work of a step or a tool. Replayed steps have no span."""


RunSpan = Callable[[Outcome], None]
"""Called with the outcome of the run."""
