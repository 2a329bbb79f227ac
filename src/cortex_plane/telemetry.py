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
    """The trace that a caller belongs to; None for what is no traceparent: a trace is a help, never a reason to refuse."""
    found = _TRACEPARENT.fullmatch(traceparent.strip()) if isinstance(traceparent, str) else None
    return found[1] if found else None


def trace_from(unique: str) -> str:
    """A trace id made of a UUID, so that the same thing has the same trace wherever it is asked for."""
    return unique.replace("-", "").lower()


def traceparent_of(trace_id: str) -> str:
    """Says that the sender is the first span of the trace."""
    return f"00-{trace_id}-{trace_id[16:] if trace_id[16:].strip('0') else trace_id[:16]}-01"


def carried(kept: str | None) -> str | None:
    """What was kept with a job, a whole traceparent or the trace alone, as a traceparent; None when it is neither."""
    if kept is None or trace_id_of(kept) is not None:
        return kept and kept.strip()
    whole = traceparent_of(kept) if re.fullmatch(r"[0-9a-f]{32}", kept) else None
    return whole if trace_id_of(whole) else None


# -- telemetry ---------------------------------------------------------------------------------
# Where traces go. Without anybody who wants them there is no such thing, and nothing is done.


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
