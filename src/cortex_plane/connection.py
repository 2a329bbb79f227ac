"""A plane's store in one event loop, with all that works on it there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from cortex_plane.agents.directory import Directory
from cortex_plane.agents.model import AgentRecord
from cortex_plane.errors import Unavailable
from cortex_plane.jobs.model import AgentId
from cortex_plane.telemetry import carried
from cortex_plane.wiring import channels, clicks, execution_service, http_client, open_store, telemetry
from cortex_plane.worker.services import built_in_agents

if TYPE_CHECKING:
    from cortex_plane.agents.code import AgentCode
    from cortex_plane.approvals.channels.base import Clicks
    from cortex_plane.plane import Plane


class Connection:
    """Opens when it is first asked for, and writes the agents of the code to the store."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._lock = asyncio.Lock()
        self._is_open = self._is_closed = False
        self._registered: set[str] = set()
        self.store = open_store(plane.settings.database_url, plane.clock, plane._ids)
        self.directory = Directory(self.store)
        self.telemetry = telemetry()
        http, settings = http_client(), plane.settings
        self.execution = execution_service(
            settings, self.store, self.directory, plane.clock, plane._ids, http, plane.execution_app
        )
        self._http = http
        self.channels = channels(settings, http, plane.clock, self.store.webhooks.target, plane.channels)
        self.built_in = built_in_agents(
            self.store, self.directory, plane._ids, plane.clock, http, self.execution, self.channels, settings.public_url
        )

    @cached_property
    def clicks(self) -> dict[str, Clicks]:
        """The services whose buttons decide, by name."""
        return clicks(self._plane.settings, self._http, self._plane.clock)

    @contextmanager
    def submitting(self, agents: Sequence[str], traceparent: str | None = None) -> Iterator[str | None]:
        """The trace that jobs submitted here belong to; `traceparent` is the caller's span."""
        if self.telemetry is None:
            yield carried(traceparent)
            return
        with self.telemetry.submitting(agents, traceparent) as trace:
            yield trace

    async def ready(self) -> None:
        if self._is_open and self._registered.issuperset(self._plane.agents):
            return
        async with self._lock:
            if self._is_closed:
                raise Unavailable("The plane was closed before its database was open.")
            if not self._is_open:
                await self.store.open()
                self._is_open = True
            await self.register(self._plane.agents)

    async def close(self) -> None:
        """Whoever is opening the store ends that first: what it opens would never be closed."""
        async with self._lock:
            self._is_closed = True
            await self.store.close()

    async def register(self, agents: Mapping[str, AgentCode]) -> None:
        missing = [code for name, code in agents.items() if name not in self._registered]
        if missing:
            await self.store.agents.register(
                [AgentRecord(AgentId(self._plane._ids()), code.job_type, code.described()) for code in missing]
            )
            await self.directory.refresh()
            self._registered.update(code.job_type for code in missing)
