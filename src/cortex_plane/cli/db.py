"""`cortex db`: the schema of the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.logs import configure_logs
from cortex_plane.cli.planes import AsJson, OnlyDatabaseUrl, refuse_a_server, sqlite_file
from cortex_plane.settings import load_settings


async def status(*, database_url: OnlyDatabaseUrl = None, as_json: AsJson = False) -> int:
    """Show the schema version of the database.

    Changes nothing: a missing SQLite file is not created.

    Try:
        cortex db status
        cortex db status --database-url postgresql://me@localhost/jobs
    """
    from cortex_plane.cli.output import console, facts, print_json, words

    store, file = _store(database_url)
    exists = file is None or file.exists()
    schema = await _schema_status(store) if exists else None
    report = {
        "database": store.description,
        "exists": exists,
        "current": schema.current if schema else 0,
        "latest": schema.latest if schema else None,
        "pending": list(schema.pending) if schema else [],
        "up_to_date": schema is not None and not schema.pending,
    }
    if as_json:
        print_json(report)
        return 0
    say = console()
    say.print(facts([("database", words(store.description)), ("schema", words(_in_words(report)))]))
    if not report["up_to_date"]:
        next_step("To upgrade it" if exists else "To create it", "cortex db upgrade", database_url)
    return 0


async def upgrade(*, database_url: OnlyDatabaseUrl = None, as_json: AsJson = False) -> int:
    """Create or upgrade the schema.

    Idempotent, and safe to run concurrently: each migration is applied once.

    Try:
        cortex db upgrade
        cortex db upgrade --database-url postgresql://me@localhost/jobs
    """
    from cortex_plane.cli.output import print_json

    store, _ = _store(database_url)
    await store.open(prepare=False)
    try:
        applied = await store.schema.upgrade()
        schema = await store.schema.status()
    finally:
        await store.close()
    if as_json:
        print_json({"database": store.description, "applied": applied, "current": schema.current})
        return 0
    for name in applied:
        print(f"Applied {name}")
    print(f"{store.description} has schema version {schema.current}{'' if applied else ' already'}.")
    return 0


async def repair(*, database_url: OnlyDatabaseUrl = None, as_json: AsJson = False) -> int:
    """Repair jobs that are marked as running although no run exists.

    Needed only after restoring an inconsistent backup: triggers keep jobs and runs consistent. Workers
    also check about 5,000 jobs every ten seconds; this command checks all of them. A job whose run has
    ended gets the outcome of that run. A job without a run resumes as after a crash. The counts of
    waiting jobs in each queue are recomputed.

    Try:
        cortex db repair
    """
    import random

    from cortex_plane.cli.output import print_json
    from cortex_plane.ids import new_id
    from cortex_plane.worker.rescue import repair_jobs

    store, _ = _store(database_url)
    await store.open()
    try:
        repaired = await repair_jobs(store, new_id, random.random)
        await store.queue.recount()
    finally:
        await store.close()
    if as_json:
        print_json({"database": store.description, "repaired": repaired})
    elif repaired:
        print(f"Repaired {repaired} {'job' if repaired == 1 else 'jobs'}. The history of each has the details.")
    else:
        print("Nothing to repair.")
    return 0


def _store(database_url: str | None) -> tuple[Any, Path | None]:
    """The store, not opened yet, and its file if it is SQLite."""
    from cortex_plane.wiring import open_store

    settings = load_settings({"database_url": database_url})
    refuse_a_server(settings, database_url)
    configure_logs(settings, quiet=True)
    return open_store(settings.database_url), sqlite_file(settings.database_url)


async def _schema_status(store: Any) -> Any:
    await store.open(prepare=False)
    try:
        return await store.schema.status()
    finally:
        await store.close()


def _in_words(report: dict[str, Any]) -> str:
    if not report["exists"]:
        return "none: the file does not exist yet"
    if not report["current"]:
        return f"none yet; this program brings version {report['latest']}"
    if report["pending"]:
        return f"version {report['current']} of {report['latest']}; missing: {', '.join(report['pending'])}"
    return f"version {report['current']}, up to date"
