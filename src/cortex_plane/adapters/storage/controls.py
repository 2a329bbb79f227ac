"""Pauses, limits, shares and budgets: each change in one transaction, with its audit entry."""

from __future__ import annotations

from collections.abc import Callable

from cortex_plane.adapters.storage import rows
from cortex_plane.adapters.storage.database import Database
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.controls import Control, Scope
from cortex_plane.ports.json_text import dumps


class SqlControls:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self) -> list[Control]:
        return [rows.control(row) for row in await self._database.read("controls/list")]

    async def get(self, scope: Scope, name: str) -> Control:
        for row in await self._database.read("controls/get", scope=scope, name=name):
            return rows.control(row)
        return Control(scope, name)

    async def change(self, scope: Scope, name: str, change: Callable[[Control], Control], entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _change(scope, name, change, entry))


def _change(scope: Scope, name: str, change: Callable[[Control], Control], entry: AuditEntry) -> Script[bool]:
    yield from ask("controls/lock")
    found = yield from ask("controls/get", scope=scope, name=name)
    before = rows.control(found[0]) if found else Control(scope, name)
    after = change(before)
    if after == before:
        return False
    if after.says_nothing:
        yield from ask("controls/remove", scope=scope, name=name)
    else:
        yield from ask(
            "controls/put",
            scope=scope,
            name=name,
            paused=after.paused,
            paused_by=after.paused_by,
            pause_reason=after.pause_reason,
            max_running=after.max_running,
            fair_share=after.fair_share,
            budget_cents=after.budget_cents,
            on_exhausted=after.on_exhausted,
            updated_by=entry.actor,
        )
    if after.needs_lanes and not before.needs_lanes:
        yield from ask("controls/give_lanes", scope=scope, name=name)
    yield from ask("audit/record", entries=dumps([entry.to_json()]))
    yield from ask("controls/wake")
    return True
