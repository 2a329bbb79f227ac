"""A server with a job that waits, and keys for it: what the tests of `--server` share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cortex_plane import Plane, Settings
from cortex_plane.http.embedded import QuietServer
from cortex_plane.people.tenants import add_tenant
from tests.apps import app_of

NOWHERE = "http://127.0.0.1:9"
RunIn = Callable[..., Any]
MakeKey = Callable[..., None]


@contextmanager
def serving(database_url: str, *, port: int = 0) -> Iterator[str]:
    """Its address. The plane is one of its own, in a thread with a loop of its own."""
    server = QuietServer(app_of(Plane(settings=Settings(database_url=database_url))))
    server.config.lifespan, server.config.port, server.config.log_level = "on", port, "critical"
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server has not started"
        thread.join(0.01)
    [listening] = server.servers[0].sockets
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.config.timeout_graceful_shutdown = 0  # Whoever still follows a job is cut off.
        server.should_exit = True
        thread.join()


@pytest.fixture
def server(database_url: str, run_in: RunIn) -> Iterator[str]:
    run_in(database_url, lambda plane: plane.submit("greet", {"name": "Ada"}, delay=3600))
    with serving(database_url) as url:
        yield url


@pytest.fixture
def key(database_url: str, run_in: RunIn, monkeypatch: pytest.MonkeyPatch) -> MakeKey:
    """`key("viewer", tenant="acme")` makes one, and from then on it is ours."""

    def make(*roles: str, tenant: str | None = None, user: str | None = None) -> None:
        async def add(plane: Plane) -> str:
            if tenant not in (None, "default"):
                await add_tenant(plane.store, plane._ids, str(tenant))
            if user is not None:
                for role in roles:
                    await plane.access.give_role(user, role, tenant=tenant)
            return (await plane.access.add_key("laptop", roles, tenant=tenant, user=user)).secret

        monkeypatch.setenv("CORTEX_API_KEY", run_in(database_url, add))

    return make
