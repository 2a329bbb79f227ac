"""Serves an app on a free port of this machine, in the event loop of whoever asks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from fastapi import FastAPI
from uvicorn import Config, Server


class ServerWithoutSignals(Server):
    """Ctrl-C belongs to whoever started us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[str]:
    """Its address. The plane behind the app is closed when this ends."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    config = Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1, lifespan="on")
    server = ServerWithoutSignals(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
