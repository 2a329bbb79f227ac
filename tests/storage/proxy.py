"""A TCP proxy that stands where a pooler would, and swallows notifications."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

NOTIFICATION = b"A"
HEADER_BYTES = 5


@contextmanager
def without_notifications(url: str) -> Iterator[str]:
    """An address that leads to the same server, from which no NotificationResponse ever comes.

    The proxy has a thread and a loop of its own, as a pooler would be a process of its own."""
    target = urlsplit(url)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
    thread.start()
    proxy = asyncio.run_coroutine_threadsafe(_listen(str(target.hostname), int(target.port or 0)), loop).result(10)
    port = proxy.sockets[0].getsockname()[1]
    try:
        yield url.replace(f":{target.port}/", f":{port}/")
    finally:
        asyncio.run_coroutine_threadsafe(_stop(proxy), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _listen(host: str, port: int) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(host, port)
        with suppress(asyncio.CancelledError):
            await asyncio.gather(_copy(reader, server_writer), _filter(server_reader, writer), return_exceptions=True)

    return await asyncio.start_server(serve, "127.0.0.1", 0)


async def _stop(proxy: asyncio.Server) -> None:
    proxy.close()
    connections = asyncio.all_tasks() - {asyncio.current_task()}
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def _filter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Message by message: one byte of type, four of length, then the body."""
    try:
        first = await reader.readexactly(1)
        if first == b"N":  # The answer to the question for TLS is a single byte.
            writer.write(first)
        else:
            writer.write(first + await _rest(reader))
        while True:
            kind = await reader.readexactly(1)
            message = kind + await _rest(reader)
            if kind != NOTIFICATION:
                writer.write(message)
                await writer.drain()
    except asyncio.IncompleteReadError:
        pass
    finally:
        writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(HEADER_BYTES - 1)
    return length + await reader.readexactly(int.from_bytes(length) - len(length))
