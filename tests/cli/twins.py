"""The same commands on two planes that were filled alike: one in a database, one behind a server. They must say the same."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from json import dumps, loads
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Plane
from tests.cli.conftest import Cortex, Result
from tests.cli.normalise import normal
from tests.cli.servers import serving

# Who asks is whom the key belongs to; on a database, the login.
ACTORS = re.compile(r'cli:ada|user:ada|key:[\w-]+|"(?:cli|api)"')
OWNERS = re.compile(r'"(owner_id|user_account_id|user_id)": (?:null|"<id>")')
KEYS = re.compile(r"ctx_[\w-]{8}|vk_[0-9a-f]{32}")
TRACES = re.compile(r'(?<="trace_id": ")[0-9a-f]{32}')
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


@dataclass
class World:
    where: list[str]
    names: dict[str, str]


class Twins:
    def __init__(self, cortex: Cortex, direct: World, behind: World) -> None:
        self._cortex, self.direct, self.behind = cortex, direct, behind

    @property
    def worlds(self) -> tuple[World, World]:
        return self.direct, self.behind

    def same(self, line: str, *, keep: dict[str, str] | None = None, stdin: str = "") -> Result:
        """Runs it in both, and returns what the server's said. `keep` names parts of the document for later lines. After a ~
        only the exit codes must be the same: the API checks its input in words of its own."""
        only_the_code, line = line.startswith("~"), line.removeprefix("~")
        one, other = (self.run(world, line, keep or {}, stdin) for world in self.worlds)
        told = [[f"exit code {result.code}"] if only_the_code else _told(result) for result in (one, other)]
        if told[0] != told[1]:
            difference = "\n".join(unified_diff(told[0], told[1], "on the database", "through a server", lineterm=""))
            pytest.fail(f"{line}\n{difference}", pytrace=False)
        return other

    def run(self, world: World, line: str, keep: dict[str, str], stdin: str) -> Result:
        words = [word.format(**world.names) for word in shlex.split(line)]
        result = self._cortex(*words, *world.where, stdin=stdin)
        for name, path in keep.items():
            found: Any = loads(result.out)
            for part in path.split("."):
                found = found[int(part)] if part.isdigit() else found[part]
            world.names[name] = str(found)
        return result


def _told(result: Result) -> list[str]:
    return [f"exit code {result.code}", *_plain(_ordered(result.out)).splitlines(), *_plain(result.err).splitlines()]


def _ordered(text: str) -> str:
    """PostgreSQL has an order of its own for what is in documents."""
    try:
        return dumps(loads(text), sort_keys=True, indent=2)
    except ValueError:
        return text


def _plain(text: str) -> str:
    text = re.sub(r"--(database-url|server) \S+", "--place <url>", text)
    text = OWNERS.sub(r'"\1": <owner>', KEYS.sub("<key>", normal(text)))
    return ACTORS.sub("<actor>", TIMES.sub("<time>", TRACES.sub("<trace>", text)))


Fill = Callable[[Plane], Awaitable[dict[str, str]]]


@pytest.fixture
def twins(
    cortex: Cortex,
    database_url: str,
    run_in: Callable[..., Any],
    tmp_path: Path,
    sqlite_template: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Fill], Twins]]:
    """`twins(fill)`: the first in a SQLite file, the other on each store in turn, behind a server with an admin's key."""
    with_servers: list[Any] = []

    def make(fill: Fill) -> Twins:
        async def keyed(plane: Plane) -> str:
            await plane.people.add("ada")
            for role in ("admin", "approver"):
                await plane.access.give_role("ada", role)
            return (await plane.access.add_key("test", ["admin", "approver"], user="ada")).secret

        other_url = f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'twin.db')}"
        for url in (other_url, database_url):
            monkeypatch.setenv("CORTEX_API_KEY", run_in(url, keyed))
        names = [run_in(url, fill) for url in (other_url, database_url)]
        served = serving(database_url)
        with_servers.append(served)
        url = served.__enter__()
        return Twins(cortex, World(["--database-url", other_url], names[0]), World(["--server", url], names[1]))

    yield make
    for served in with_servers:
        served.__exit__(None, None, None)
