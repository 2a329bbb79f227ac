"""The claim on SQLite: one statement while nothing is steered, a short script otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cortex_plane.adapters.storage.database import Row
from cortex_plane.adapters.storage.queue import SqlQueue
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.jobs import INTERNAL_QUEUE
from cortex_plane.ports.json_text import dumps, loads

CLOCK = "00000000-0000-0000-0000-000000000000"


class SqliteQueue(SqlQueue):
    async def _claimed_rows(self, **values: Any) -> Sequence[Row]:
        return await self._database.transact(lambda: _claim(values))


def _claim(values: dict[str, Any]) -> Script[Sequence[Row]]:
    [now] = yield from ask("queue/is_steered")
    if now["closed"]:
        values = {**values, "queues": dumps([queue for queue in loads(values["queues"]) if queue == INTERNAL_QUEUE])}
    if not now["steered"]:
        return (yield from ask("queue/claim", **values))
    return (yield from _claim_steered(**values))


def _claim_steered(worker_id: str, actor: str, queues: str, job_types: str, run_ids: str) -> Script[Sequence[Row]]:
    runs = loads(run_ids)
    found = yield from ask("queue/choose", queues=queues, job_types=job_types, limit=len(runs))
    chosen = _without_company(found)
    pairs = [[row["job_id"], run_id] for row, run_id in zip(chosen, runs, strict=False)]
    claimed = yield from ask("queue/claim_chosen", worker_id=worker_id, actor=actor, chosen=dumps(pairs))
    if claimed:
        yield from _count_turns(queues, chosen)
    return claimed


def _without_company(found: Sequence[Row]) -> Sequence[Row]:
    """An entry that must run alone is never taken with others: only it, or only those before it."""
    first = next((place for place, row in enumerate(found) if row["alone"]), None)
    return found if first is None else found[: max(first, 1)]


def _count_turns(queues: str, chosen: Sequence[Row]) -> Script[None]:
    served = {(row["queue"], row["tenant_id"]): row["served"] for row in (yield from ask("queue/turns", queues=queues))}
    fair = {queue for queue, _ in served}
    taken = Counter((row["queue"], row["tenant_id"]) for row in chosen if row["queue"] in fair)
    turns = {who: count + max(served.get(who, 0), served.get((who[0], CLOCK), 0)) for who, count in taken.items()}
    for queue in {queue for queue, _ in turns}:
        turns[queue, CLOCK] = max(turn for (where, _), turn in turns.items() if where == queue) - 1
    if turns:
        batch = [{"queue": queue, "tenant_id": tenant_id, "served": turn} for (queue, tenant_id), turn in turns.items()]
        yield from ask("queue/count_turns", turns=dumps(batch))
