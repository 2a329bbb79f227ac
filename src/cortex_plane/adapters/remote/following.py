"""A job as it goes on, through the server's events: each becomes what it was before it was sent.

id: 3.2.17
event: step
data: {"type": "step", "position": "3.2.17", "at": …}
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from cortex_plane.adapters.remote.server import Server
from cortex_plane.core.events import (
    JobEnded,
    LineLogged,
    News,
    NothingNew,
    Position,
    ProgressMade,
    StateChanged,
    StepRecorded,
    TokensUsed,
    Told,
)
from cortex_plane.core.jobs import HistoryEntry, Job, JobId
from cortex_plane.core.server_urls import ServerAway
from cortex_plane.ports.json_text import loads

READERS: dict[str, TypeAdapter[Any]] = {
    kind.type: TypeAdapter(kind) for kind in (StepRecorded, TokensUsed, LineLogged, ProgressMade)
}
ENTRY = TypeAdapter(HistoryEntry)
DATA, COMMENT = "data:", ":"


async def follow(server: Server, look: Callable[[], Awaitable[Job]], job_id: JobId, position: Position) -> AsyncIterator[Told]:
    """`look` reads the job as it is now. A stream that ends before the job is one that broke off."""
    job = await look()
    async with server.lines("jobs", job_id, "events", last_event_id=str(position)) as lines:
        async for line in lines:
            if line.startswith(DATA):
                document = loads(line.removeprefix(DATA))
                at, position = datetime.fromisoformat(document["at"]), Position.parse(document["position"])
                if document["type"] == JobEnded.type:
                    break
                if document["type"] == StateChanged.type:
                    job = await look()
                if (news := _news(document, job, position)) is not None:
                    yield Told(at, position, news)
            elif line.startswith(COMMENT):
                yield Told(job.updated_at, position, NothingNew(job))
        else:
            raise ServerAway(f"{server.url} has ended the stream before the job ended.")
    # Only now, with the connection given back: whoever hears of the end listens no further.
    yield Told(at, position, JobEnded(await look()))


def _news(document: dict[str, Any], job: Job, position: Position) -> News | None:
    """None for what only a newer server tells."""
    match document["type"]:
        case StateChanged.type:
            return StateChanged(_entry(document, job.id, position))
        case kind if reader := READERS.get(kind):
            news: News = reader.validate_python(document)
            return news
        case _:
            return None


def _entry(document: dict[str, Any], job_id: JobId, position: Position) -> HistoryEntry:
    return ENTRY.validate_python(
        {
            **document,
            "job_id": job_id,
            "revision": position.revision,
            "new_status": document["status"],
            "metadata": document["details"],
            "created_at": document["at"],
        }
    )
