"""Two ways to the database that can be cut: a TCP proxy, and a network namespace, which needs rights that not everybody has.

When the proxy is mended, its connections are closed; when a namespace has its link again, they go on, and what was sent meanwhile
arrives late.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol
from urllib.parse import urlsplit

from tests.end_to_end.chaos.faults import FAULT_SECONDS, Recovery
from tests.end_to_end.chaos.ground import Ground, pause


class Line(Protocol):
    def cut(self) -> None: ...

    def mend(self) -> None: ...


class Wire:
    """`cut` swallows every byte without closing anything, as a firewall does; `mend` closes every connection."""

    def __init__(self, host: str, port: int, listens_on: str = "127.0.0.1") -> None:
        self._host, self._port = host, port
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire", daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._serve, listens_on, 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._open.clear)

    def mend(self) -> None:
        """What was under way is lost: its connections are closed."""
        self._loop.call_soon_threadsafe(self._close_all)
        self._loop.call_soon_threadsafe(self._open.set)

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _stop(self) -> None:
        self._open.set()
        self._close_all()
        self._server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def _close_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        with suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
            self._writers |= {writer, there_writer}
            await asyncio.gather(self._copy(reader, there_writer), self._copy(there_reader, writer), return_exceptions=True)
            self._writers -= {writer, there_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


@contextmanager
def wire_to(url: str) -> Iterator[tuple[Wire, str]]:
    """The wire, and the address of the same database through it."""
    target = urlsplit(url)
    wire = Wire(str(target.hostname), int(target.port or 0))
    try:
        yield wire, url.replace(f":{target.port}/", f":{wire.port}/")
    finally:
        wire.end()


class Namespace:
    """A network of its own with one link to this one: for processes that enter it."""

    def __init__(self) -> None:
        self.name = f"cortex-{os.getpid()}"
        self._ours, self._theirs = f"cx{os.getpid()}a", f"cx{os.getpid()}b"
        network = f"10.213.{os.getpid() % 250}"
        self.address = f"{network}.1"
        try:
            _ip("netns", "add", self.name)
            _ip("link", "add", self._ours, "type", "veth", "peer", "name", self._theirs, "netns", self.name)
            _ip("address", "add", f"{self.address}/30", "dev", self._ours)
            _ip("link", "set", self._ours, "up")
            _ip("-n", self.name, "address", "add", f"{network}.2/30", "dev", self._theirs)
            _ip("-n", self.name, "link", "set", self._theirs, "up")
        except BaseException:
            self.end()
            raise

    def cut(self) -> None:
        _ip("link", "set", self._ours, "down")

    def mend(self) -> None:
        _ip("link", "set", self._ours, "up")

    def end(self) -> None:
        with suppress(OSError):
            _ip("link", "delete", self._ours)
        with suppress(OSError):
            _ip("netns", "delete", self.name)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(done.stderr.strip())


@contextmanager
def namespace_to(url: str) -> Iterator[tuple[Namespace, str]]:
    """A namespace, and the address of the database from within. Raises OSError where none can be made."""
    target, namespace = urlsplit(url), Namespace()
    try:
        wire = Wire(str(target.hostname), int(target.port or 0), namespace.address)
        try:
            yield namespace, url.replace(f"{target.hostname}:{target.port}/", f"{namespace.address}:{wire.port}/")
        finally:
            wire.end()
    finally:
        namespace.end()


async def cut_network(ground: Ground, line: Line) -> Recovery:
    """Twice: shorter than the lease, then longer."""
    for seconds in (FAULT_SECONDS / 2, FAULT_SECONDS * 2):
        line.cut()
        await pause(seconds)
        line.mend()
        await pause(0.5)
    return ground.a_new_job_completes
