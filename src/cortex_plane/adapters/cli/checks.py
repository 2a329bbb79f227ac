"""Everything that `cortex doctor` finds out, as one document; what is wrong is in `problems`, with what to do."""

from __future__ import annotations

import os
import platform
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cortex_plane.adapters.cli.hints import without_password
from cortex_plane.adapters.cli.logs import configure_logs
from cortex_plane.adapters.cli.planes import sqlite_file
from cortex_plane.adapters.system import utc_now
from cortex_plane.core.errors import CortexError, InvalidInput
from cortex_plane.core.states import WorkerStatus
from cortex_plane.settings import FILE, PREFIX, SECRETS, Settings, load_settings

LIBRARIES = ("cortex-plane", "apsw", "asyncpg", "cryptography", "cyclopts", "orjson", "rich", "structlog", "uuid-utils")

WAL_IS_UNSAFE = "This SQLite library can lose commits in its write-ahead log, so that log is not used."


async def examine(database_url: str | None) -> dict[str, Any]:
    report: dict[str, Any] = {"program": _program(), "sqlite": _sqlite(), "problems": []}
    if not report["sqlite"]["wal_is_safe"]:
        _problem(report, WAL_IS_UNSAFE, "pip install -U apsw")
    try:
        settings = load_settings({"database_url": database_url})
    except InvalidInput as error:
        report["settings"], report["database"] = [], None
        _problem(report, str(error), "Correct them, in the environment or in cortex.toml.")
        return report
    configure_logs(settings, quiet=True)
    report["settings"] = list(_settings(settings, database_url))
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

    from cortex_plane.adapters.storage.sqlite.connection import wal_is_safe

    found = apsw.sqlite_lib_version()
    return {"version": found, "wal_is_safe": wal_is_safe(found)}


def _settings(settings: Settings, database_url: str | None) -> Iterator[dict[str, Any]]:
    """Each with where it came from. The file was read without trouble a moment ago."""
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
    """`usable` is what decides the exit code."""
    found: dict[str, Any] = {"description": without_password(url), "exists": True, "usable": False}
    try:
        await _look_into(url, found, report)
    except CortexError as error:
        _problem(report, str(error), "Correct that, then run cortex doctor again.")
    return found


async def _look_into(url: str, found: dict[str, Any], report: dict[str, Any]) -> None:
    from cortex_plane.wiring import open_store

    store: Any = open_store(url)
    found["description"] = store.description
    file = sqlite_file(url)
    if file is not None and not file.exists():
        found.update(exists=False, usable=_can_be_made(file, report))
        return
    await store.open(prepare=False)
    try:
        schema = await store.schema.status()
        found["schema"] = {"current": schema.current, "latest": schema.latest, "pending": list(schema.pending)}
        if file is None:
            found["server"] = await _server_version(url)
            found["notifications"] = store.signals.pushed
        _judge(found, file is None, report)
        if found["usable"] and schema.current:
            await _work(store, found, report)
    finally:
        await store.close()


def _can_be_made(file: Path, report: dict[str, Any]) -> bool:
    folder = file.resolve().parent
    if folder.is_dir() and os.access(folder, os.W_OK):
        return True
    _problem(report, f"{file} does not exist and cannot be made.", f"Make the folder {folder}, and let this user write there.")
    return False


async def _server_version(url: str) -> str:
    from cortex_plane.adapters.storage.postgres.database import PostgresDatabase

    connection = await PostgresDatabase(url).connect()
    try:
        return str(await connection.fetchval("show server_version"))
    finally:
        connection.terminate()


def _judge(found: dict[str, Any], on_postgres: bool, report: dict[str, Any]) -> None:
    schema = found["schema"]
    outdated = bool(schema["current"] and schema["pending"])
    found["usable"] = not (outdated and on_postgres)
    if outdated:
        _problem(report, f"The schema is older than this program: {', '.join(schema['pending'])} missing.", "cortex db upgrade")
    if on_postgres and not found["notifications"]:
        _problem(
            report,
            "Notifications do not arrive, so workers look for jobs twice a second. A connection pooler is in between.",
            "Let workers connect to the server itself, or put the pooler in session mode.",
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
