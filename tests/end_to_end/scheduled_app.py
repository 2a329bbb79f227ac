"""Processes that kill themselves around a request between the slot of a schedule and the execution service."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

from uvicorn import Config, Server

from cortex_plane import Context, Plane, Settings
from cortex_plane.http.app import create_app
from cortex_plane.http_client import HttpxClient

SECRET = "the-secret-of-the-service"


@dataclass(frozen=True)
class Role:
    role: str
    url: str
    port: int
    die: tuple[str, str] | None = None
    """When: `before` or `after` the request whose address ends so."""


class Death:
    def __init__(self, die: tuple[str, str] | None) -> None:
        self._moment, self._end = die or ("never", "")

    def reached(self, moment: str, address: str) -> None:
        if moment == self._moment and address.partition("?")[0].endswith(self._end):
            os.kill(os.getpid(), signal.SIGKILL)


class DyingClient(HttpxClient):
    def __init__(self, death: Death) -> None:
        self._death = death

    async def get(self, url: str, **options: Any) -> Any:
        self._death.reached("before", "/looked")
        answer = await super().get(url, **options)
        self._death.reached("after", "/looked")
        return answer

    async def post(self, url: str, **options: Any) -> Any:
        self._death.reached("before", url)
        answer = await super().post(url, **options)
        self._death.reached("after", url)
        return answer


def dying_app(app: Any, death: Death) -> Any:
    """`after` is when everything is committed, and before anybody hears of it."""

    async def dying(scope: Any, receive: Any, send: Any) -> None:
        address = "/looked" if scope.get("method") == "GET" else scope.get("path", "")

        async def send_or_die(message: Any) -> None:
            death.reached("after", address)
            await send(message)

        death.reached("before", address)
        await app(scope, receive, send_or_die)

    return dying


async def work(role: Role) -> None:
    settings = Settings(
        database_url=role.url,
        lease_seconds=0.6,
        internal_api_url=f"http://127.0.0.1:{role.port}",
        internal_api_token=SECRET,
    )
    plane = Plane(settings=settings)

    @plane.agent("nothing")
    async def nothing(ctx: Context) -> None: ...

    async with plane:
        execution: Any = plane.execution
        object.__setattr__(execution, "http", DyingClient(Death(role.die)))
        await plane.run_worker()


async def serve(role: Role) -> None:
    plane = Plane(settings=Settings(database_url=role.url, internal_api_token=SECRET))
    app = dying_app(create_app(plane), Death(role.die))
    await Server(Config(app, port=role.port, log_config=None, access_log=False, lifespan="off")).serve()


async def main(**options: Any) -> None:
    chosen = Role(**options)
    await (work(chosen) if chosen.role == "worker" else serve(chosen))
