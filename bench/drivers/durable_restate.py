"""Restate: its server and a service in processes of their own; this one is the client."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from bench.durable.restate_server import restate_server
from bench.durable.story import StepsOrder, Work, measure
from bench.measuring import same

READY_SECONDS = 30.0
LOOK_SECONDS = 0.05
CALL_SECONDS = 120.0


class RestateSystem:
    def __init__(self, order: StepsOrder) -> None:
        self._folder = Path(order.database)
        self._processes: list[subprocess.Popen[bytes]] = []

    async def install(self) -> None:
        sockets = self._folder / "data" / "node"
        self._start(
            [str(restate_server()), "--base-dir", str(self._folder / "data"), "--node-name", "node", "--listen-mode", "unix"],
            env={**os.environ, "RESTATE_DISABLE_TELEMETRY": "true", "RESTATE_LOG_FILTER": "error"},
        )
        address = self._start_service()
        self._ingress, self._admin = _client(sockets / "ingress.sock"), _client(sockets / "admin.sock")
        await self._until_registered(address)

    def _start_service(self) -> str:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            command = [sys.executable, "-m", "hypercorn", "--bind", f"fd://{listening.fileno()}"]
            self._start([*command, "bench.drivers.restate_service:app"], pass_fds=(listening.fileno(),))
            return f"http://127.0.0.1:{listening.getsockname()[1]}"

    def _start(self, command: list[str], **options: Any) -> None:
        log = (self._folder / f"{len(self._processes)}.log").open("wb")
        self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **options))

    async def _until_registered(self, address: str) -> None:
        async with asyncio.timeout(READY_SECONDS):
            while True:
                try:
                    (await self._admin.post("/deployments", json={"uri": address})).raise_for_status()
                    return
                except httpx.HTTPError:
                    await asyncio.sleep(LOOK_SECONDS)

    async def get_ready(self, work: Work) -> None:
        """It decides itself when to write what."""

    async def run(self, work: Work) -> None:
        permits = asyncio.Semaphore(work.at_once)

        async def one() -> None:
            async with permits:
                answer = await self._ingress.post("/bench/agent", json={"steps": work.steps, "result_bytes": work.result_bytes})
                answer.raise_for_status()

        await asyncio.gather(*(one() for _ in range(work.agents)))

    async def check(self, agents: int, steps: int) -> None:
        ended = "sys_invocation where status = 'completed' and completion_result = 'success'"
        same("invocations that succeeded", await self._count(ended), agents)
        same("steps", await self._count("sys_journal where entry_type = 'Command: Run'"), steps)

    async def _count(self, rows: str) -> int:
        query = {"query": f"select count(*) as found from {rows}"}
        answer = await self._admin.post("/query", json=query, headers={"accept": "application/json"})
        return int(answer.raise_for_status().json()["rows"][0]["found"])

    async def close(self) -> None:
        await self._ingress.aclose()
        await self._admin.aclose()
        self.stop()

    def stop(self) -> None:
        """With all that they have started: npm's program is only a shell around the server."""
        while self._processes:
            process = self._processes.pop()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _client(path: Path) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=str(path), limits=httpx.Limits(max_connections=200, max_keepalive_connections=200))
    return httpx.AsyncClient(transport=transport, base_url="http://restate", timeout=CALL_SECONDS)


async def main() -> None:
    order = StepsOrder.given()
    system = RestateSystem(order)
    try:
        await measure(system, order)
    finally:
        system.stop()


if __name__ == "__main__":
    asyncio.run(main())
