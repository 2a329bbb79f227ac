"""`cortex doctor`: checks settings, database and workers."""

from __future__ import annotations

import os
import platform
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortex_plane.approvals.views import problem_with_links
from cortex_plane.cli.errors import EXIT_UNAVAILABLE, EXIT_USAGE
from cortex_plane.cli.hints import without_password
from cortex_plane.cli.logs import configure_logs
from cortex_plane.cli.planes import AsJson, OnlyDatabaseUrl, sqlite_file
from cortex_plane.clock import utc_now
from cortex_plane.durations import ago
from cortex_plane.errors import CortexError, InvalidInput
from cortex_plane.jobs.states import WorkerStatus
from cortex_plane.settings import FILE, PREFIX, SECRETS, Settings, load_settings

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


LIBRARIES = (
    "cortex-plane",
    "apsw",
    "asyncpg",
    "cyclopts",
    "fastapi",
    "httpx",
    "orjson",
    "pydantic",
    "rich",
    "structlog",
    "uvloop",
)

WAL_IS_UNSAFE = "This SQLite library can lose commits in its write-ahead log, so the log is disabled."


async def examine(database_url: str | None) -> dict[str, Any]:
    report: dict[str, Any] = {"program": _program(), "sqlite": _sqlite(), "problems": []}
    if not report["sqlite"]["wal_is_safe"]:
        _problem(report, WAL_IS_UNSAFE, "pip install -U apsw")
    try:
        settings = load_settings({"database_url": database_url})
    except InvalidInput as error:
        report["settings"], report["database"] = [], None
        _problem(report, str(error), "Correct the settings in the environment or in cortex.toml.")
        return report
    configure_logs(settings, quiet=True)
    report["settings"] = list(_settings(settings, database_url))
    if problem := problem_with_links(settings.public_url, settings.http_port, messages_go_out=settings.sends_messages):
        _problem(report, *problem)
    report["database"] = await _database(settings.database_url, report)
    return report


def _problem(report: dict[str, Any], what: str, do: str) -> None:
    report["problems"].append({"what": without_password(what), "do": do})


# -- this program --------------------------------------------------------------------------------
def _program() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _sqlite() -> dict[str, Any]:
    import apsw

    from cortex_plane.storage.sqlite.connection import wal_is_safe

    found = apsw.sqlite_lib_version()
    return {"version": found, "wal_is_safe": wal_is_safe(found)}


def _settings(settings: Settings, database_url: str | None) -> Iterator[dict[str, Any]]:
    """Each setting with its source. The file is known to be readable."""
    path = Path(FILE)
    in_file = tomllib.loads(path.read_text()) if path.exists() else {}
    for name in (field.name for field in fields(settings)):
        value = getattr(settings, name)
        variable = PREFIX + name.upper()
        if name == "database_url" and database_url is not None:
            origin = "--database-url"
        else:
            origin = variable if os.environ.get(variable) else FILE if name in in_file else "default"
        yield {"name": name, "value": _shown(name, value), "from": origin}


def _shown(name: str, value: Any) -> Any:
    if name in SECRETS:
        return "(set)" if value else ""
    return without_password(value) if isinstance(value, str) else value


# -- the database --------------------------------------------------------------------------------
async def _database(url: str, report: dict[str, Any]) -> dict[str, Any]:
    """The report on the database. `usable` determines the exit code."""
    found: dict[str, Any] = {"description": without_password(url), "exists": True, "usable": False}
    try:
        await _look_into(url, found, report)
    except CortexError as error:
        _problem(report, str(error), "Fix this, then run cortex doctor again.")
    return found


async def _look_into(url: str, found: dict[str, Any], report: dict[str, Any]) -> None:
    from cortex_plane.wiring import open_store

    store: Any = open_store(url)
    found["description"] = store.description
    file = sqlite_file(url)
    if file is not None and not file.exists():
        found.update(exists=False, usable=_can_be_created(file, report))
        return
    await store.open(prepare=False)
    try:
        schema = await store.schema.status()
        found["schema"] = {"current": schema.current, "latest": schema.latest, "pending": list(schema.pending)}
        if file is None:
            await _server(url, found, report)
            found["notifications"] = store.signals.pushed
        else:
            _check_log(file, report)
        _judge(found, file is None, report)
        if found["usable"] and schema.current:
            await _work(store, found, report)
    finally:
        await store.close()


def _can_be_created(file: Path, report: dict[str, Any]) -> bool:
    folder = file.resolve().parent
    if folder.is_dir() and os.access(folder, os.W_OK):
        return True
    _problem(report, f"{file} does not exist and cannot be created.", f"Create the folder {folder}, writable for this user.")
    return False


def _check_log(file: Path, report: dict[str, Any]) -> None:
    """Checks the size of the write-ahead log: an open reader prevents checkpoints, so the log grows."""
    from cortex_plane.storage.sqlite import database as readers

    length = readers.log_bytes(file)
    if length <= readers.LONG_LOG_BYTES:
        return
    what = f"The write-ahead log {file}-wal has {length // 2**20:,} MiB."
    if found := readers.readers_of(file):
        who = ", ".join(map(str, found))
        _problem(report, f"{what} It cannot shrink while {who} reads it.", "End the transaction of that program, or stop it.")
    else:
        _problem(report, what, "It shrinks when a worker or server is idle. Check for a program with an open transaction.")


async def _server(url: str, found: dict[str, Any], report: dict[str, Any]) -> None:
    from cortex_plane.storage.postgres.database import PostgresDatabase
    from cortex_plane.storage.postgres.schema import problems_of, server_condition

    condition = await server_condition(PostgresDatabase(url))
    found["server"] = condition["version"]
    for what, do in problems_of(condition):
        _problem(report, what, do)


def _judge(found: dict[str, Any], on_postgres: bool, report: dict[str, Any]) -> None:
    schema = found["schema"]
    outdated = bool(schema["current"] and schema["pending"])
    found["usable"] = not (outdated and on_postgres)
    if outdated:
        _problem(report, f"The schema is older than this program: {', '.join(schema['pending'])} missing.", "cortex db upgrade")
    if on_postgres and not found["notifications"]:
        _problem(
            report,
            "LISTEN/NOTIFY does not work, so workers poll twice a second. There is a connection pooler in between.",
            "Connect workers directly to the server, or use the pooler in session mode.",
        )


async def _work(store: Any, found: dict[str, Any], report: dict[str, Any]) -> None:
    workers = [worker for worker in await store.workers.list() if worker.status is WorkerStatus.LIVE]
    now = utc_now()
    found["workers"] = [
        {
            "name": worker.name,
            "queues": worker.queues,
            "agents": worker.job_types,
            "concurrency": worker.concurrency,
            "heartbeat_at": worker.heartbeat_at,
            "silent": worker.lease_until < now,
        }
        for worker in workers
    ]
    found["queues"] = await store.queue.depths()
    served = {queue for worker in found["workers"] if not worker["silent"] for queue in worker["queues"]}
    for queue, depth in found["queues"].items():
        if depth.get("ready") and queue not in served:
            what = f'Jobs are ready in the queue "{queue}" ({depth["ready"]}), but no worker works on it.'
            _problem(report, what, f"cortex worker APP --queue {queue}")


# -- doctor ------------------------------------------------------------------------------------
# `cortex doctor`


async def doctor(*, database_url: OnlyDatabaseUrl = None, as_json: AsJson = False) -> int:
    """Check the settings, the database and the workers.

    Changes nothing. The exit code is 5 if the database cannot be used, and 2 if a setting is invalid.

    Try:
        cortex doctor
        cortex doctor --database-url postgresql://me@localhost/jobs
    """
    from cortex_plane.cli.output import print_json

    report = await examine(database_url)
    if as_json:
        print_json(report)
    else:
        _print(report)
    if report["database"] is None:
        return EXIT_USAGE
    return 0 if report["database"]["usable"] else EXIT_UNAVAILABLE


def _print(report: dict[str, Any]) -> None:
    from cortex_plane.cli.output import console, facts, heading, indented, table, words

    say = console()
    sections = {
        "Program": _program_lines(report),
        "Database": _database_lines(report["database"]),
        "Work": _work_lines(report["database"]),
    }
    for name, lines in sections.items():
        if rows := list(lines):
            say.print(heading(name))
            say.print(indented(facts(rows)))
            say.print()
    if report["settings"]:
        say.print(heading("Settings"))
        rows_of_settings = [[words(s["name"]), words(str(s["value"])), words(s["from"], "dim")] for s in report["settings"]]
        say.print(indented(table(["NAME", "VALUE", "FROM"], rows_of_settings)))
        say.print()
    for line in _verdict(report["problems"]):
        say.print(line, soft_wrap=True)


def _program_lines(report: dict[str, Any]) -> Iterator[tuple[str, RenderableType]]:
    program, sqlite = report["program"], report["sqlite"]
    libraries = dict(program["libraries"])
    yield "cortex-plane", libraries.pop("cortex-plane")
    yield "python", f"{program['python']} on {program['platform']}"
    yield "libraries", ", ".join(f"{name} {version}" for name, version in libraries.items())
    yield "sqlite", _mark(sqlite["wal_is_safe"], f"{sqlite['version']}, its write-ahead log", "is safe", "is not safe")


def _database_lines(found: dict[str, Any] | None) -> Iterator[tuple[str, RenderableType]]:
    if found is None:
        return
    if not found["exists"]:
        yield "place", _mark(found["usable"], found["description"], "(created by the first worker)", "(cannot be created)")
        return
    yield "place", _mark(found["usable"], found["description"], "", "(cannot be used)")
    if "server" in found:
        yield "server", f"PostgreSQL {found['server']}"
        yield "wake-ups", _mark(found["notifications"], "notifications", "arrive", "do not arrive")
    if "schema" in found:
        current, pending = found["schema"]["current"], found["schema"]["pending"]
        text = f"version {current}," if current else "none yet,"
        yield "schema", _mark(not (current and pending), text, "up to date" if current else "created on first use", "out of date")


def _work_lines(found: dict[str, Any] | None) -> Iterator[tuple[str, RenderableType]]:
    from cortex_plane.cli.output import words

    if found is None or "workers" not in found:
        return
    if not found["workers"]:
        yield "workers", "none is running"
    for worker in found["workers"]:
        what = f"{worker['name']}: {', '.join(worker['agents'])}; queues {', '.join(worker['queues'])}"
        seen = ago(worker["heartbeat_at"], utc_now())
        yield "worker", words(f"{what}; {'silent since' if worker['silent'] else 'seen'} {seen}")
    if not found["queues"]:
        yield "queues", "empty"
    for queue, depth in sorted(found["queues"].items()):
        yield "queue", words(f"{queue}: {', '.join(f'{count} {state}' for state, count in sorted(depth.items()))}")


def _mark(good: bool, text: str, if_good: str, if_bad: str) -> Text:
    from cortex_plane.cli.output import words

    return words("✓ " if good else "✗ ", "green" if good else "red") + words(f"{text} {if_good if good else if_bad}".rstrip())


def _verdict(problems: list[dict[str, str]]) -> Iterator[Text]:
    from cortex_plane.cli.output import words

    if not problems:
        yield words("No problems were found.", "green")
    for number, problem in enumerate(problems, 1):
        yield words(f"Problem {number}: ", "bold red") + words(problem["what"])
        yield words("           → ", "dim") + words(problem["do"])
