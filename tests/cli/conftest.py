"""The real command line, run in this process: `cortex("jobs", "list")`, in an empty folder, with no settings from outside."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import structlog

from cortex_plane import Backoff, Context, PermanentFailure, Plane, RetryPolicy, Settings
from cortex_plane.cli.main import main
from tests.cli.normalise import normal


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def shown(self) -> str:
        """What was printed, with ids and times replaced."""
        return normal(self.out)

    @property
    def said(self) -> str:
        return normal(self.err)


class Cortex(Protocol):
    def __call__(self, *words: str, stdin: str = "") -> Result: ...


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, as a newcomer is."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in list(os.environ):
        if name.startswith("CORTEX_") and name != "CORTEX_POSTGRES_BIN":
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    return here


@pytest.fixture
def cortex(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cortex]:
    paths, modules, handlers = list(sys.path), set(sys.modules), list(logging.getLogger().handlers)

    def run(*words: str, stdin: str = "") -> Result:
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(words)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    yield run
    structlog.reset_defaults()
    sys.path[:] = paths
    logging.getLogger().handlers[:] = handlers
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder.parent)):
            del sys.modules[name]


def demo_plane(database_url: str, files: Path) -> Plane:
    """Agents for every ending."""
    plane = Plane(settings=Settings(database_url=database_url, data_dir=str(files)))

    @plane.agent("greet")
    async def greet(ctx: Context, name: str = "world", group: dict[str, Any] | None = None) -> str:
        return f"Hello, {name}!"

    @plane.agent("flaky", retry=RetryPolicy(max_retries=1, backoff=Backoff(base_seconds=0.0)))
    def flaky(ctx: Context) -> None:
        raise ValueError("not today")

    @plane.agent("hopeless", queue="reports")
    async def hopeless(ctx: Context) -> None:
        raise PermanentFailure("no such report")

    return plane


@pytest.fixture
def run_in(folder: Path) -> Callable[..., Any]:
    """`run_in(database_url, work)` runs `await work(plane)` on a plane with agents, and closes it again."""

    def run(database_url: str, work: Callable[[Plane], Awaitable[Any]]) -> Any:
        async def with_plane() -> Any:
            async with demo_plane(database_url, folder / "files") as plane:
                return await work(plane)

        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        return asyncio.run(with_plane())

    return run
