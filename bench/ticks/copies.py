"""Schedules by the thousand: some are added as anybody adds them, and their rows are copied under other ids."""

from __future__ import annotations

from typing import Any

import apsw
import asyncpg

from bench.million.columns import in_a_place_of_its_own
from bench.million.load import Load
from cortex_plane import Context, Plane
from cortex_plane.schedules.model import Schedule

FEW = 1_000
TABLES = ("execution_grant", "schedule", "job", "job_history", "queue_entry", "job_key")
CRON = "0 0 1 1 *"

OTHER_IDS = {"id", "job_id", "grant_id", "schedule_id", "slot_job_id", "serial_key"}


async def add_schedules(database_url: str) -> None:
    async with Plane(database_url) as plane:
        register_agent(plane)
        for number in range(FEW):
            await plane.schedules.add(f"schedule-{number:04}-original", "agent:noop", CRON)


def register_agent(plane: Plane) -> None:
    @plane.agent("noop")
    async def noop(ctx: Context) -> None: ...


def value(table: str, column: str) -> str:
    """Instants stay. The grant, the schedule, its job, its entry and its key point at each other as those of the original do."""
    match table, column:
        case "job", "payload":
            return "rewritten(payload, schedule_id, :copy)"
        case _, "job_key":
            return "aged(substr(job_key, 1, 36), :copy) || substr(job_key, 37)"
        case "schedule", "name":
            return "numbered(name, :copy)"
        case "queue_entry", "id":
            return in_a_place_of_its_own(table, column)
        case _ if column in OTHER_IDS:
            return f"aged({column}, :copy)"
        case _:
            return in_a_place_of_its_own(table, column)


def load(schedules: int) -> Load:
    return Load(add_schedules, TABLES, schedules // FEW - 1, value)


# -- is a copy what the product itself would have stored? -------------------------------------------

KEYS = {"job_history": "job_id", "queue_entry": "job_id", "job_key": "job_id"}
PLACES = {"position", "worker_job_id", "seq"}


async def check_copies(url: str, name: str) -> None:
    """Compares every row of a copied schedule with those of its original, but for ids and places. (The trace of its first slot
    is the original's.)"""
    async with Plane(url) as plane:
        schedules = [await plane.schedules.get(one) for one in (name, f"{name[:-8]}{1:08x}")]
    original, copied = [await _rows(url, schedule) for schedule in schedules]
    if original != copied or len(original) < len(TABLES):
        raise AssertionError(f"A copy is not as the product stores it. This measurement is void.\n{original}\n{copied}")


async def _rows(url: str, schedule: Schedule) -> list[dict[str, str]]:
    ids = {schedule.id: "its id", str(schedule.slot_job_id): "its job", schedule.grant_id: "its grant", schedule.name: "its name"}
    found = []
    for table in TABLES:
        for identity in (schedule.id, str(schedule.slot_job_id), schedule.grant_id):
            key = KEYS.get(table, "id")
            for row in await _select(url, f"select * from cortex.{table} where cast({key} as text) = '{identity}'"):
                found.append({column: _renamed(str(kept), ids) for column, kept in row.items() if not _is_place(table, column)})
    return found


def _is_place(table: str, column: str) -> bool:
    return column in PLACES or (table, column) in (("queue_entry", "id"), ("job_history", "id"))


def _renamed(text: str, names: dict[str, str]) -> str:
    for identity, name in names.items():
        text = text.replace(identity, name)
    return text


async def _select(url: str, sql: str) -> list[dict[str, Any]]:
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        try:
            cursor = connection.execute(sql.replace("cortex.", ""))
            return [dict(zip((name for name, _ in cursor.getdescription()), row, strict=True)) for row in cursor]
        finally:
            connection.close()
    server = await asyncpg.connect(url)
    try:
        return [dict(row) for row in await server.fetch(sql)]
    finally:
        await server.close()
