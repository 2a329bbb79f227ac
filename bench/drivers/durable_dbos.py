"""DBOS: plain functions in its thread pool (faster here than async ones), on either store."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import sqlalchemy
from dbos import DBOS  # type: ignore[import-not-found]

from bench.durable.story import AT_ONCE, StepsOrder, Work, measure, result
from bench.measuring import same


class DbosSystem:
    def __init__(self, order: StepsOrder) -> None:
        self._url = order.database
        self._schema = "" if self._is_sqlite else "dbos."

    @property
    def _is_sqlite(self) -> bool:
        return self._url.startswith("sqlite")

    async def install(self) -> None:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self._url,
                "application_version": "1",
                "log_level": "CRITICAL",
                "sys_db_pool_size": 20,
                "max_executor_threads": AT_ONCE,
            }
        )
        self._agent = _agent()
        DBOS.launch()
        url = self._url if self._is_sqlite else self._url.replace("postgresql://", "postgresql+psycopg://", 1)
        self._engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")

    async def get_ready(self, work: Work) -> None:
        with self._engine.connect() as connection:
            for sql in ("analyze", "pragma wal_checkpoint(restart)") if self._is_sqlite else ("vacuum analyze", "checkpoint"):
                connection.exec_driver_sql(sql)

    async def run(self, work: Work) -> None:
        await asyncio.to_thread(self._run, work)

    def _run(self, work: Work) -> None:
        if work.at_once == 1:
            for _ in range(work.agents):
                self._agent(work.steps, work.result_bytes)
        else:  # Its pool has as many threads as agents may run at once.
            started = [DBOS.start_workflow(self._agent, work.steps, work.result_bytes) for _ in range(work.agents)]
            for handle in started:
                handle.get_result()

    async def check(self, agents: int, steps: int) -> None:
        same("workflows that succeeded", self._count("workflow_status where status = 'SUCCESS'"), agents)
        same("workflows", self._count("workflow_status"), agents)
        same("steps", self._count("operation_outputs"), steps)

    def _count(self, rows: str) -> int:
        with self._engine.connect() as connection:
            return int(connection.exec_driver_sql(f"select count(*) from {self._schema}{rows}").scalar_one())

    async def close(self) -> None:
        """Its threads end only with the process."""


def _agent() -> Any:
    @DBOS.step()  # type: ignore[untyped-decorator]
    def step(result_bytes: int) -> str | None:
        return result(result_bytes)

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def agent(steps: int, result_bytes: int) -> None:
        for _ in range(steps):
            step(result_bytes)

    return agent


async def main() -> None:
    logging.disable(logging.CRITICAL)
    order = StepsOrder.given()
    await measure(DbosSystem(order), order)


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)
