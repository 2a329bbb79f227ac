"""Wake-ups on PostgreSQL: one LISTEN connection for each process, or polling where a pooler swallows notifications."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
import structlog

from cortex_plane.errors import CortexError
from cortex_plane.storage.postgres.errors import BROKEN
from cortex_plane.worker.loops import wait_at_most

if TYPE_CHECKING:
    from cortex_plane.storage.postgres.database import PostgresDatabase

log = structlog.get_logger()

CHANNEL = "cortex"
PROBE_SECONDS = 1.0
POLL_WITH_PUSH_SECONDS = 5.0
POLL_WITHOUT_PUSH_SECONDS = 0.5
CHECK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Subscription:
    queues: frozenset[str]
    worker_id: str | None

    def wants(self, message: str) -> bool:
        kind, _, subject = message.partition(":")
        if kind == "all":
            return True
        return subject in self.queues if kind == "ready" else subject == self.worker_id


class PostgresSignals:
    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._subscriptions: dict[asyncio.Event, Subscription] = {}
        self._listening: asyncio.Task[None] | None = None
        self._waking: asyncio.TimerHandle | None = None
        self.pushed = True

    @property
    def poll_seconds(self) -> float:
        return POLL_WITH_PUSH_SECONDS if self.pushed else POLL_WITHOUT_PUSH_SECONDS

    async def probe(self) -> bool:
        """Does a notification really arrive? Behind a pooler in transaction mode it does not."""
        listener = await self._database.connect()
        speaker: asyncpg.Connection | None = None
        try:
            speaker = await self._database.connect()
            channel, heard = f"cortex_probe_{uuid4().hex}", asyncio.Event()
            await listener.add_listener(channel, lambda *_: heard.set())
            await speaker.execute(f"notify {channel}")
            if not await wait_at_most(heard, PROBE_SECONDS):
                raise TimeoutError
        except (*BROKEN, asyncpg.PostgresError):
            self.pushed = False
            log.warning(
                "postgres_notifications_missing",
                database=self._database.description,
                meaning=f"A pooler stands between; the plane looks for work every {POLL_WITHOUT_PUSH_SECONDS} s instead.",
            )
        finally:
            listener.terminate()
            if speaker is not None:
                speaker.terminate()
        return self.pushed

    def subscribe(self, event: asyncio.Event, *, queues: frozenset[str] = frozenset(), worker_id: str | None = None) -> None:
        self._subscriptions[event] = Subscription(queues, worker_id)
        if self.pushed and self._listening is None:
            self._listen_again()

    def _listen_again(self, _ended: object = None) -> None:
        """A handler that cancels all tasks of its loop ends this one too."""
        if _ended is None or self._listening is _ended:
            self._listening = asyncio.get_running_loop().create_task(self._listen_for_ever(), name="cortex-listen")
            self._listening.add_done_callback(self._listen_again)

    def unsubscribe(self, event: asyncio.Event) -> None:
        self._subscriptions.pop(event, None)

    async def close(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen_for_ever(self) -> None:
        pause = 0.1
        while True:
            try:
                await self._listen()
                pause = 0.1
            except (CortexError, *BROKEN, asyncpg.PostgresError) as error:
                log.warning("postgres_listen_lost", error=f"{type(error).__name__}: {error}")
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, 5.0)

    async def _listen(self) -> None:
        """Until the connection breaks."""
        connection = await self._database.connect()
        broken = asyncio.Event()
        try:
            connection.add_termination_listener(lambda *_: broken.set())
            await connection.add_listener(CHANNEL, self._heard)
            self.wake_all()  # Whatever was said while nobody listened.
            while not broken.is_set():
                if not await wait_at_most(broken, CHECK_SECONDS):
                    await connection.execute("select 1")  # A silent network would otherwise look like a quiet one.
        finally:
            connection.terminate()

    def _heard(self, _connection: object, _pid: int, _channel: str, message: object) -> None:
        for event, subscription in self._subscriptions.items():
            if subscription.wants(str(message)):
                event.set()

    def wake_all(self) -> None:
        for event in self._subscriptions:
            event.set()

    def wake_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._waking is None or self._waking.cancelled() or self._waking.when() <= loop.time():
            self._waking = loop.call_later(seconds, self.wake_all)
