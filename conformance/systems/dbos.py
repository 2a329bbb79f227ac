"""DBOS: a workflow with a fixed id, recovered when the program is launched again under the same version and executor."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import Callable
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient, SetWorkflowID  # type: ignore[import-not-found]
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect

from conformance.agent import BROKEN_STEP, CALLS, QUESTIONS, STEPS, Doings
from conformance.boundaries import Boundaries
from conformance.systems import Recorded

WORKFLOW_ID = "probe"
PATIENCE_SECONDS = 20.0
REPEATED = {"retries_allowed": True, "interval_seconds": 0.01, "max_attempts": 5}
WRITES = re.compile(r"\s*(insert|update|delete|with)\b", re.IGNORECASE)


class Dbos:
    def watch(self, boundaries: Boundaries) -> None:
        """Every transaction that has written something, committed through SQLAlchemy."""
        writing: set[int] = set()  # Connections of drivers, which live as long as their pool.
        commit: Callable[[Any, Any], None] = DefaultDialect.do_commit

        def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
            if WRITES.match(statement):
                writing.add(id(connection.connection.dbapi_connection))

        def watched(dialect: Any, connection: Any) -> None:
            driver = id(getattr(connection, "dbapi_connection", connection))
            if driver not in writing:
                commit(dialect, connection)
                return
            writing.discard(driver)
            with boundaries.around("commit"):
                commit(dialect, connection)

        sqlalchemy.event.listen(Engine, "before_cursor_execute", note)
        DefaultDialect.do_commit = watched  # type: ignore[method-assign]

    def prepare(self, database: str) -> None:
        _configure(database)
        DBOS.launch()
        DBOS.destroy()

    def run(self, database: str, doings: Doings) -> list[str]:
        ten = _ten(database, doings)
        with SetWorkflowID(WORKFLOW_ID):
            handle = DBOS.start_workflow(ten)
        results: list[str] = handle.get_result(polling_interval_sec=0.02)
        return results

    def resume(self, database: str, doings: Doings) -> list[str]:
        """A workflow that ended by an error is forked at the step that raised it."""
        _ten(database, doings)
        (failed,) = [step for step in DBOS.list_workflow_steps(WORKFLOW_ID) if step["function_name"] == BROKEN_STEP]
        results: list[str] = DBOS.fork_workflow(WORKFLOW_ID, failed["function_id"]).get_result(polling_interval_sec=0.02)
        return results

    def pay(self, database: str, doings: Doings) -> list[str]:
        """The key is made of the ids that DBOS shows to a step: workflow and step."""
        _configure(database)

        def under_key() -> str:
            return doings.pay(f"{DBOS.workflow_id}:{DBOS.step_id}")

        @DBOS.workflow()  # type: ignore[untyped-decorator]
        def payment() -> list[str]:
            return [DBOS.run_step({"name": "pay", **REPEATED}, under_key)]

        DBOS.launch()
        with SetWorkflowID(WORKFLOW_ID):
            handle = DBOS.start_workflow(payment)
        results: list[str] = handle.get_result(polling_interval_sec=0.02)
        return results

    def spread(self, database: str, doings: Doings) -> list[str]:
        _configure(database)

        async def called(name: str) -> str:
            return doings.call(name)

        @DBOS.workflow()  # type: ignore[untyped-decorator]
        async def six() -> list[str]:
            return list(await asyncio.gather(*(DBOS.run_step_async({"name": name, **REPEATED}, called, name) for name in CALLS)))

        async def program() -> list[str]:
            with SetWorkflowID(WORKFLOW_ID):
                handle = await DBOS.start_workflow_async(six)
            results: list[str] = await handle.get_result(polling_interval_sec=0.02)
            return results

        DBOS.launch()
        return asyncio.run(program())

    def recorded(self, database: str) -> Recorded:
        client = DBOSClient(system_database_url=database)
        return [(step["function_name"], step["output"]) for step in client.list_workflow_steps(WORKFLOW_ID)]

    def ask(self, database: str, doings: Doings) -> list[str]:
        _configure(database)

        @DBOS.workflow()  # type: ignore[untyped-decorator]
        def two_questions() -> list[str]:
            return [DBOS.recv("answers", timeout_seconds=PATIENCE_SECONDS) for _ in QUESTIONS]

        DBOS.launch()
        with SetWorkflowID(WORKFLOW_ID):
            handle = DBOS.start_workflow(two_questions)
        for question in QUESTIONS:
            if not doings.was_given(question):
                DBOS.send(WORKFLOW_ID, doings.answer(question), "answers", idempotency_key=question)
                doings.note_given(question)
        answers: list[str] = handle.get_result(polling_interval_sec=0.02)
        return answers

    def alter(self, database: str, old: str, new: str) -> bool:
        """Results are stored as base64 of what was pickled."""
        schema = "" if database.startswith("sqlite") else "dbos."
        changed = False
        with _engine(database).begin() as connection:
            rows = connection.exec_driver_sql(f"select function_id, output from {schema}operation_outputs").all()
            for number, output in rows:
                raw = base64.b64decode(output)
                if old.encode() in raw:
                    text = base64.b64encode(raw.replace(old.encode(), new.encode())).decode()
                    sql = sqlalchemy.text(f"update {schema}operation_outputs set output = :text where function_id = :number")
                    connection.execute(sql, {"text": text, "number": number})
                    changed = True
        return changed


def _ten(database: str, doings: Doings) -> Callable[[], list[str]]:
    _configure(database)

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def ten() -> list[str]:
        return [DBOS.run_step({"name": step}, doings.perform, step) for step in STEPS]

    DBOS.launch()
    workflow: Callable[[], list[str]] = ten
    return workflow


def _configure(database: str) -> None:
    logging.disable(logging.CRITICAL)
    config = {"name": "probe", "system_database_url": database, "application_version": "1", "log_level": "CRITICAL"}
    DBOS(config=config)


def _engine(database: str) -> Engine:
    return sqlalchemy.create_engine(database.replace("postgresql://", "postgresql+psycopg://", 1))
