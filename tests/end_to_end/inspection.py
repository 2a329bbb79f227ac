"""Looks into the database with plain SQL, beside the product, and states what must hold at every moment."""

from __future__ import annotations

from typing import Any

import apsw
import asyncpg


async def query(database_url: str, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a SELECT; tables are written `cortex.job` on both stores. Ids come back as text."""
    if database_url.startswith("sqlite"):
        connection = apsw.Connection(database_url.removeprefix("sqlite:///"))
        try:
            connection.set_busy_timeout(10_000)
            return [tuple(row) for row in connection.execute(sql.replace("cortex.", ""))]
        finally:
            connection.close()
    server = await asyncpg.connect(database_url)
    try:
        return [tuple(row) for row in await server.fetch(sql)]
    finally:
        await server.close()


RULES = {
    "5.1: a RUNNING job has its open run": """
        select j.id from cortex.job j left join cortex.job_run r on r.job_id = j.id and r.id = j.run_id and r.status = 'RUNNING'
        where j.status = 'RUNNING' and r.id is null""",
    "5.1: an open run belongs to a RUNNING job": """
        select r.id from cortex.job_run r left join cortex.job j on j.id = r.job_id and j.run_id = r.id and j.status = 'RUNNING'
        where r.status = 'RUNNING' and j.id is null""",
    "5.2: no run without its job": """
        select r.id from cortex.job_run r left join cortex.job j on j.id = r.job_id where j.id is null""",
    "5.3: never two open runs of a job": """
        select job_id from cortex.job_run where status = 'RUNNING' group by job_id having count(*) > 1""",
    "5.3: a job completes once, by one run": """
        select job_id from cortex.job_run where status = 'COMPLETED' group by job_id having count(*) > 1""",
    "5.3: the history says COMPLETED once": """
        select job_id from cortex.job_history where new_status = 'COMPLETED' group by job_id having count(*) > 1""",
    "a COMPLETED job has a COMPLETED run": """
        select j.id from cortex.job j where j.status = 'COMPLETED'
          and not exists (select 1 from cortex.job_run r where r.job_id = j.id and r.status = 'COMPLETED')""",
    "every attempt is one run": """
        select j.id from cortex.job j where j.attempt <> (select count(*) from cortex.job_run r where r.job_id = j.id)""",
    "runs of one job do not overlap": """
        select a.id from cortex.job_run a join cortex.job_run b on b.job_id = a.job_id and b.attempt = a.attempt + 1
        where a.finished_at is null or a.finished_at > b.started_at""",
    "a waiting job has its queue entry, and nobody else has one": """
        select j.id from cortex.job j left join cortex.queue_entry e on e.job_id = j.id
        where (j.status in ('PENDING', 'RETRY')) <> (e.job_id is not null)""",
    "the history ends where the job is": """
        select j.id from cortex.job j
        where not exists (
          select 1 from cortex.job_history h where h.job_id = j.id and h.new_status = j.status and h.revision = (
            select max(revision) from cortex.job_history where job_id = j.id))""",
    "each line of history goes on where the one before ended": """
        select h.job_id from cortex.job_history h join cortex.job_history n on n.job_id = h.job_id and n.revision = (
            select min(revision) from cortex.job_history where job_id = h.job_id and revision > h.revision)
        where n.previous_status <> h.new_status""",
    "a job is retried by at most one other": """
        select retry_of from cortex.job where retry_of is not null group by retry_of having count(*) > 1""",
}


async def broken_rules(database_url: str) -> dict[str, list[str]]:
    """The rules that do not hold, with the ids that break them; empty when all is well."""
    found = {rule: await query(database_url, sql) for rule, sql in RULES.items()}
    return {rule: [str(row[0]) for row in rows] for rule, rows in found.items() if rows}
