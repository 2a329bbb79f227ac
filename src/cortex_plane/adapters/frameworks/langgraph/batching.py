"""Collects what the tasks of a graph write while a transaction is under way, and writes it with the next."""

from __future__ import annotations

import asyncio

from cortex_plane.core.graphs import GraphWrite, NewGraphCheckpoint
from cortex_plane.ports.graphs import GraphCheckpoints, GraphThread

New = NewGraphCheckpoint | GraphWrite


class Batcher:
    def __init__(self, checkpoints: GraphCheckpoints, thread: GraphThread | None) -> None:
        self._checkpoints, self._thread = checkpoints, thread
        self._waiting: list[tuple[New, asyncio.Future[None]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def add(self, *items: New) -> None:
        """Returns when all of them are durable."""
        if not items:
            return
        durable = asyncio.get_running_loop().create_future()
        self._waiting += [(item, durable) for item in items]
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())
        await durable

    async def _send(self) -> None:
        """Begins in the next turn of the event loop: tasks that end together write together."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            futures = dict.fromkeys(future for _, future in batch)
            try:
                await self._save([item for item, _ in batch])
            except BaseException as error:
                for future in futures:
                    if not future.done():
                        future.set_exception(error)
            else:
                for future in futures:
                    if not future.done():
                        future.set_result(None)

    async def _save(self, items: list[New]) -> None:
        if self._thread is not None:
            await self._thread.listener.before_write()
        await self._checkpoints.save(
            [item for item in items if isinstance(item, NewGraphCheckpoint)],
            [item for item in items if isinstance(item, GraphWrite)],
            self._thread.holder if self._thread is not None else None,
        )
