"""Claims and finishes jobs, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from cortex_plane.durable.schema import Blob, Checkpoint
from cortex_plane.errors import CortexError
from cortex_plane.jobs.model import INTERNAL_QUEUE, Claimed, JobId, RunId, TenantId, WorkerId
from cortex_plane.jobs.outcomes import BrokenJob, LostRun, Transition
from cortex_plane.json import dumps, embedded, loads
from cortex_plane.queues.why import Standing
from cortex_plane.storage import rows
from cortex_plane.storage.transactions import Transaction, query
from cortex_plane.worker.model import actor_of

if TYPE_CHECKING:
    from cortex_plane.storage.database import Database, Row


class Queue(Protocol):
    async def claim(
        self,
        worker_id: WorkerId,
        queues: Sequence[str],
        job_types: Sequence[str],
        run_ids: Sequence[RunId],
        free: int | None = None,
    ) -> list[Claimed]:
        """The best ready jobs, in order, at most one for each run id; none for a worker that is not LIVE. `free` of them begin at
        once (all, unless given); of the others none belongs to a group."""

    def miss_nothing(self) -> None:
        """The next claim looks at all that is ready. Any other may begin where the last one ended, and leave the rest."""

    async def set_aside_unstartable(
        self, worker_id: WorkerId, queues: Sequence[str], job_types: Sequence[str], limit: int
    ) -> list[JobId]:
        """After a claim that the database refused: of the next so many jobs, those that it refuses to start wait for a minute."""

    async def open_runs(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        """Which of these runs the worker holds: the truth after a claim whose answer was lost."""

    async def finish(self, transitions: Sequence[Transition], actor: str) -> set[RunId]:
        """Applies each transition whose run is still its job's open run; returns those runs. All in one transaction."""

    async def free_jobs(self, job_ids: Sequence[JobId]) -> set[JobId]:
        """Those whose rows nobody else has locked at this moment."""

    async def save_output(self, job_id: JobId, run_id: RunId, output: Blob) -> None:
        """Keeps what a run returned apart from its job, before the transition that refers to it. If the run is not the job's
        open run, nothing is kept."""

    async def closed_runs(self, runs: Sequence[tuple[JobId, RunId]]) -> dict[RunId, str | None]:
        """Those of the runs that are closed, with who closed them."""

    async def asked_to_end(self, runs: Sequence[tuple[JobId, RunId]]) -> dict[RunId, Any]:
        """Those of the runs, still open, whose jobs were asked to end: kind (cancel or deadline), actor, reason."""

    async def stranded_runs(self, limit: int) -> list[LostRun]:
        """Open runs that nobody will end: no worker owns and no queue entry offers them, or their worker is unknown or has ended.
        Of a run without a worker `worker_id` is empty."""

    async def take_turn_to_mend(self, rest_seconds: float) -> JobId | None:
        """The job after which to look next; None when somebody has looked within these seconds."""

    async def next_page(self, after: JobId, limit: int) -> JobId | None:
        """The last of the next so many jobs, by id."""

    async def mended_up_to(self, last: JobId) -> None: ...

    async def broken_jobs(self, after: JobId, last: JobId, limit: int) -> list[BrokenJob]:
        """Of the jobs after one up to another, those that are RUNNING though their run is closed or missing."""

    async def open_missing_run(self, job_id: JobId) -> None: ...

    async def promote_due(self, limit: int) -> int:
        """Makes ready what has fallen due; returns how many."""

    async def settle_stuck_keys(self) -> None:
        """Makes ready the first job of serial keys that were left for later; claims do so too."""

    async def next_due_in(self) -> float | None:
        """Seconds until the next entry falls due, negative when it has."""

    async def standing(self, job_id: JobId) -> Standing | None:
        """Where a waiting job stands; None for one that does not wait."""

    async def running(self) -> list[tuple[str, str, TenantId, int]]:
        """How many jobs run on a worker, by queue, agent and tenant."""

    async def depths(self) -> dict[str, dict[str, int]]:
        """Entries of each queue, by state. Read from counts, not by counting."""

    async def fold_counts(self) -> int:
        """Folds changes of the counts together, as many as one transaction should, and returns how many those were."""

    async def recount(self) -> None:
        """Counts all entries anew, while nobody writes."""


# -- queue -------------------------------------------------------------------------------------
# The queue, as workers see it: claim, finish, and what falls due.


Write = TypeVar("Write", Checkpoint, Transition)

MANY_CHANGES = 5_000
"""Changes of counts that no worker has folded yet: whoever has read them folds some."""
FOLDED_AT_ONCE = 20_000


class SqlQueue:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self,
        worker_id: WorkerId,
        queues: Sequence[str],
        job_types: Sequence[str],
        run_ids: Sequence[RunId],
        free: int | None = None,
    ) -> list[Claimed]:
        array = self._database.array
        found = await self._claimed_rows(
            worker_id=worker_id,
            actor=actor_of(worker_id),
            queues=array(dict.fromkeys(queues)),  # Naming one twice means it once.
            job_types=array(dict.fromkeys(job_types)),
            run_ids=array(run_ids),
            free=len(run_ids) if free is None else free,
        )
        # Run ids are handed out in queue order, so this restores it where RETURNING does not. A run that was taken over
        # keeps its own id, and comes in the place of the one that was given for it.
        place = {run_id: index for index, run_id in enumerate(run_ids)}
        return [rows.claimed(row) for row in sorted(found, key=lambda row: place[RunId(str(row["claimed_as"]))])]

    def miss_nothing(self) -> None:
        """Every claim looks at all that is ready."""

    async def _claimed_rows(self, **values: Any) -> Sequence[Row]:
        return await self._database.write_once("queue/claim", **values)

    async def set_aside_unstartable(
        self, worker_id: WorkerId, queues: Sequence[str], job_types: Sequence[str], limit: int
    ) -> list[JobId]:
        array = self._database.array
        found = await self._database.write_once(
            "queue/set_aside_unstartable", worker_id=worker_id, queues=array(queues), job_types=array(job_types), limit=limit
        )
        return [JobId(str(row["job_id"])) for row in found]

    async def open_runs(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> list[Claimed]:
        found = await self._database.read("runs/open", worker_id=worker_id, run_ids=self._database.array(run_ids))
        return [rows.claimed(row) for row in found]

    async def finish(self, transitions: Sequence[Transition], actor: str) -> set[RunId]:
        applied: set[RunId] = set()
        for batch in one_for_each_job(transitions):
            write = self._database.write_small if len(batch) == 1 else self._database.write_batch
            document = dumps([_as_json(transition) for transition in batch])
            applied |= runs_of(batch, await write("runs/finish", actor=actor, batch=document))
        return applied

    async def free_jobs(self, job_ids: Sequence[JobId]) -> set[JobId]:
        found = await self._database.write("jobs/free", ids=self._database.array(job_ids))
        return {JobId(str(row["id"])) for row in found}

    async def save_output(self, job_id: JobId, run_id: RunId, output: Blob) -> None:
        await self._database.write("runs/save_output", job_id=job_id, run_id=run_id, digest=output.sha256, content=output.content)

    async def closed_runs(self, runs: Sequence[tuple[JobId, RunId]]) -> dict[RunId, str | None]:
        found = await self._database.read(
            "runs/closed",
            job_ids=self._database.array(job_id for job_id, _ in runs),
            run_ids=self._database.array(run_id for _, run_id in runs),
        )
        return {RunId(str(row["run_id"])): row["closed_by"] for row in found}

    async def asked_to_end(self, runs: Sequence[tuple[JobId, RunId]]) -> dict[RunId, Any]:
        found = await self._database.read(
            "runs/asked_to_end",
            job_ids=self._database.array(job_id for job_id, _ in runs),
            run_ids=self._database.array(run_id for _, run_id in runs),
        )
        return {RunId(str(row["run_id"])): rows.json_or_none(row["cancel_request"]) for row in found}

    async def stranded_runs(self, limit: int) -> list[LostRun]:
        return [rows.lost_run(row) for row in await self._database.read("runs/stranded", limit=limit)]

    async def take_turn_to_mend(self, rest_seconds: float) -> JobId | None:
        for row in await self._database.write("jobs/take_turn_to_mend", rest_seconds=rest_seconds):
            return JobId(str(row["after"]))
        return None

    async def next_page(self, after: JobId, limit: int) -> JobId | None:
        for row in await self._database.read("jobs/next_page", after=after, limit=limit):
            return JobId(str(row["id"]))
        return None

    async def mended_up_to(self, last: JobId) -> None:
        await self._database.write("jobs/mended_up_to", last=last)

    async def broken_jobs(self, after: JobId, last: JobId, limit: int) -> list[BrokenJob]:
        return [rows.broken_job(row) for row in await self._database.read("runs/broken", after=after, last=last, limit=limit)]

    async def open_missing_run(self, job_id: JobId) -> None:
        await self._database.write("runs/open_missing", id=job_id)

    async def promote_due(self, limit: int) -> int:
        return sum(row["promoted"] for row in await self._database.write("queue/promote_due", limit=limit))

    async def settle_stuck_keys(self) -> None:
        await self._database.write("queue/settle_stuck")

    async def next_due_in(self) -> float | None:
        found = await self._database.read("queue/next_due")
        return float(found[0]["seconds"]) if found else None

    async def standing(self, job_id: JobId) -> Standing | None:
        for row in await self._database.read("queue/place", id=job_id):
            return Standing(
                state=row["state"],
                due_at=rows.moment(row["due_at"]),
                ahead=row["ahead"],
                key_held_by=rows.text_or_none(row["key_held_by"]),
                key_next=rows.text_or_none(row["key_next"]),
            )
        return None

    async def running(self) -> list[tuple[str, str, TenantId, int]]:
        return [
            (row["queue"], row["job_type"], TenantId(str(row["tenant_id"])), row["runs"])
            for row in await self._database.read("queue/running")
        ]

    async def depths(self) -> dict[str, dict[str, int]]:
        depths: dict[str, dict[str, int]] = {}
        changes = 0
        for row in await self._database.read("queue/depths"):
            changes += row["changes"]
            if row["entries"] > 0:
                depths.setdefault(row["queue"], {})[row["state"]] = row["entries"]
        if changes > MANY_CHANGES:
            await self.fold_counts()
        return depths

    async def fold_counts(self) -> int:
        return sum(row["folded"] for row in await self._database.write("counts/fold", limit=FOLDED_AT_ONCE))

    async def recount(self) -> None:
        await self._database.transact(_recount)


def _recount() -> Transaction[None]:
    yield from query("counts/reset")
    yield from query("counts/recount")


def one_for_each_job(writes: Sequence[Write]) -> Iterator[list[Write]]:
    """Batches in which no job stands twice, sorted, so that two batches lock their jobs in the same order.

    An answer names jobs. A superseded run and its successor in one batch would both be taken for applied."""
    rest = list(writes)
    if len(rest) == 1:
        yield rest
        return
    while rest:
        first: dict[JobId, Write] = {}
        for one in rest:
            first.setdefault(one.job_id, one)
        yield [first[job_id] for job_id in sorted(first)]
        rest = [one for one in rest if first[one.job_id] is not one]


def runs_of(batch: Sequence[Write], found: Sequence[Row]) -> set[RunId]:
    """Of a batch, the runs of the jobs that came back."""
    jobs = {str(row["id"]) for row in found}
    return {one.run_id for one in batch if one.job_id in jobs}


def _as_json(transition: Transition) -> dict[str, Any]:
    """What is nothing is left out: most jobs complete, and every name would be read for each of them."""
    document = {
        "job_id": transition.job_id,
        "run_id": transition.run_id,
        "status": transition.status,
        "output": None if transition.output is None else embedded(transition.output),
        "output_blob": None if transition.large_output is None else transition.large_output.sha256,
        "error": transition.error,
        "error_message": transition.error_message,
        "wait_reason": transition.wait_reason,
        "delay_seconds": transition.delay_seconds,
        "retry_count": transition.retry_count,
        "crash_count": transition.crash_count,
        "cost_cents": transition.cost_cents or None,
        "cause": transition.cause,
        "note": transition.note,
        "checkpoint": transition.checkpoint,
        "checkpoint_id": transition.checkpoint_id,
    }
    return {name: value for name, value in document.items() if value is not None}


# -- queue -------------------------------------------------------------------------------------
# The claim on SQLite: one statement while nothing is steered, a short script otherwise.


CLOCK = "00000000-0000-0000-0000-000000000000"
ROOMS = (("queue", "queue", "queue_room"), ("agent", "job_type", "agent_room"), ("tenant", "tenant_id", "tenant_room"))

FEW_LANES = 4
"""So many pairs of queue and agent are read one by one."""


class SqliteQueue(SqlQueue):
    async def set_aside_unstartable(
        self, worker_id: WorkerId, queues: Sequence[str], job_types: Sequence[str], limit: int
    ) -> list[JobId]:
        where = {"queues": self._database.array(queues), "job_types": self._database.array(job_types)}
        candidates = await self._database.read("queue/choose", **where, limit=limit)
        aside = []
        for row in _admitted(candidates, limit):
            job_id = JobId(row["job_id"])
            try:
                await self._database.transact(partial(_try_to_start, worker_id, job_id))
            except _Undone:
                continue
            except CortexError:
                await self._database.write("queue/set_aside", id=job_id)
                aside.append(job_id)
        return aside

    async def _claimed_rows(self, **values: Any) -> Sequence[Row]:
        return await self._database.transact(lambda: _claim(values))


class _Undone(Exception):
    """The job could be started; nothing of that is kept."""


def _try_to_start(worker_id: WorkerId, job_id: JobId) -> Transaction[None]:
    yield from query("queue/claim_chosen", worker_id=worker_id, actor="", chosen=dumps([[job_id, CLOCK]]), free=1)
    raise _Undone


def _claim(values: dict[str, Any]) -> Transaction[Sequence[Row]]:
    [now] = yield from query("queue/is_steered", queues=values["queues"], job_types=values["job_types"])
    if now["closed"]:
        values = {**values, "queues": dumps([queue for queue in loads(values["queues"]) if queue == INTERNAL_QUEUE])}
    if now["steered"]:
        return (yield from _claim_steered(**values))
    queues, runs = loads(values["queues"]), loads(values["run_ids"])
    if len(queues) * len(loads(values["job_types"])) > FEW_LANES and not now["stopping"]:
        chosen = yield from _first_ready(queues, values, len(runs))
        if chosen is not None:
            return (yield from _claim_chosen(values["worker_id"], values["actor"], chosen, runs, values["free"]))
    return (yield from query("queue/claim", **values))


def _first_ready(queues: list[str], values: dict[str, Any], limit: int) -> Transaction[Sequence[Row] | None]:
    """The first ready entries, if enough of those that are looked at are for this worker: then their number counts, and not how
    many queues and agents there are. None: it must read one lane for each queue and agent."""
    common = {"job_types": values["job_types"], "look": 200 + 5 * limit}
    if len(queues) == 1:
        found = yield from query("queue/first_ready_of_queue", queue=queues[0], limit=limit, **common)
        beyond = "queue/ready_beyond_in_queue"
    else:
        found = yield from query("queue/first_ready", queues=values["queues"], limit=limit, **common)
        beyond = "queue/ready_beyond"
    if len(found) < limit:
        where = {"queue": queues[0]} if len(queues) == 1 else {}
        if (yield from query(beyond, look=common["look"], **where)):
            return None
    return found


def _claim_chosen(worker_id: str, actor: str, chosen: Sequence[Row], runs: list[str], free: int) -> Transaction[Sequence[Row]]:
    if not chosen:
        return []
    pairs = [[row["job_id"], run_id] for row, run_id in zip(chosen, runs, strict=False)]
    return (yield from query("queue/claim_chosen", worker_id=worker_id, actor=actor, chosen=dumps(pairs), free=free))


def _claim_steered(
    worker_id: str, actor: str, queues: str, job_types: str, run_ids: str, free: int
) -> Transaction[Sequence[Row]]:
    runs = loads(run_ids)
    chosen = _admitted((yield from query("queue/choose", queues=queues, job_types=job_types, limit=len(runs))), len(runs))
    claimed = yield from _claim_chosen(worker_id, actor, chosen, runs, free)
    if claimed:
        yield from _count_turns(queues, chosen)
    return claimed


def _admitted(candidates: Sequence[Row], limit: int) -> list[Row]:
    """The first of them whose queue, agent and tenant have room."""
    taken: Counter[tuple[str, str]] = Counter()
    admitted = []
    for row in candidates:
        scopes = [(kind, row[name], row[room]) for kind, name, room in ROOMS if row[room] is not None]
        if all(taken[kind, name] < room for kind, name, room in scopes):
            taken.update((kind, name) for kind, name, _ in scopes)
            admitted.append(row)
            if len(admitted) == limit:
                break
    return admitted


def _count_turns(queues: str, chosen: Sequence[Row]) -> Transaction[None]:
    served = {(row["queue"], row["tenant_id"]): row["served"] for row in (yield from query("queue/turns", queues=queues))}
    fair = {queue for queue, _ in served}
    taken = Counter((row["queue"], row["tenant_id"]) for row in chosen if row["queue"] in fair)
    turns = {who: count + max(served.get(who, 0), served.get((who[0], CLOCK), 0)) for who, count in taken.items()}
    for queue in {queue for queue, _ in turns}:
        turns[queue, CLOCK] = max(turn for (where, _), turn in turns.items() if where == queue) - 1
    if turns:
        batch = [{"queue": queue, "tenant_id": tenant_id, "served": turn} for (queue, tenant_id), turn in turns.items()]
        yield from query("queue/count_turns", turns=dumps(batch))


# -- queue -------------------------------------------------------------------------------------
# The claim on PostgreSQL, which remembers how far the queue was read.
#
# While somebody holds an old snapshot, nothing that was claimed since can leave the index, and a claim that reads it from
# the start
# steps over all of it. So a busy store remembers, for each queue, agent and priority, the last entry that it claimed half
# a second
# ago, and reads on from there. What enters before that place, such as a retry or a job of a transaction that took long,
# is found
# by a look at the whole, as often as it is cheap. It comes at once when nothing was found, unless the last one took long:
# then it
# is put off, and workers are woken when it is due.


Lane = tuple[str, str, int]

REMEMBER_AFTER = 2_000
"""So many claimed jobs; before that there is little to step over."""
LAG_SECONDS = 0.5
"""Transactions that were under way when an entry was claimed have mostly ended by then."""
WHOLE_LOOK_SECONDS = 0.25
CHEAP_SECONDS = 0.01
IDLE_LOOK_SHARE = 10
"""After a look at the whole that took longer, claims that find nothing spend at most a tenth of the time on further ones."""
WHOLE_LOOK_SHARE = 20
"""Whole looks take at most a twentieth of the time."""
MOST_LANES = 200


class QueueHeads:
    def __init__(self, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._elapsed = elapsed
        self._claimed = 0
        self._marks: deque[tuple[float, dict[Lane, dict[str, Any]]]] = deque()
        """What was claimed last in each lane, and when."""
        self._heads: dict[Lane, dict[str, Any]] = {}
        self._whole_look_at = 0.0
        self._looked_at, self._look_seconds = 0.0, 0.0

    def heads(self) -> str | None:
        """Where to read on; None: look at the whole."""
        now = self._elapsed()
        while self._marks and self._marks[0][0] <= now - LAG_SECONDS:
            self._heads |= self._marks.popleft()[1]
        if self._claimed < REMEMBER_AFTER or not self._heads or now >= self._whole_look_at or len(self._heads) > MOST_LANES:
            return None
        return dumps(list(self._heads.values()))

    @property
    def put_off_seconds(self) -> float:
        """How long a claim that found nothing must wait with its look at the whole."""
        if self._look_seconds < CHEAP_SECONDS:
            return 0.0
        return max(0.0, self._looked_at + IDLE_LOOK_SHARE * self._look_seconds - self._elapsed())

    def look_at_whole_next(self) -> None:
        self._whole_look_at = 0.0

    def looked_at_whole(self, seconds: float, found: int) -> None:
        """A look that found something also took time to claim it: only one that found nothing tells what looking costs."""
        self._looked_at, self._look_seconds = self._elapsed(), 0.0 if found else seconds
        self._whole_look_at = self._looked_at + max(WHOLE_LOOK_SECONDS, WHOLE_LOOK_SHARE * seconds)

    def claimed(self, found: Sequence[Row]) -> None:
        self._claimed += len(found)
        mark: dict[Lane, dict[str, Any]] = {}
        for row in found:  # In the order of the queue, so the last of a lane stays.
            lane = row["queue"], row["job_type"], row["rank"]
            mark[lane] = {
                "queue": lane[0],
                "job_type": lane[1],
                "rank": lane[2],
                "position": row["place"],
                "created_at": row["created_at"].isoformat(),
                "job_id": str(row["job_id"]),
            }
        if mark:
            self._marks.append((self._elapsed(), mark))


class PostgresQueue(SqlQueue):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._heads_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], QueueHeads]] = WeakKeyDictionary()

    @property
    def _heads(self) -> dict[tuple[str, str], QueueHeads]:
        return self._heads_by_loop.setdefault(asyncio.get_running_loop(), {})

    def miss_nothing(self) -> None:
        for remembered in self._heads.values():
            remembered.look_at_whole_next()

    async def _claimed_rows(self, **values: Any) -> Sequence[Row]:
        key = str(values["queues"]), str(values["job_types"])
        remembered = self._heads.setdefault(key, QueueHeads())
        heads, found = remembered.heads(), []
        if heads is not None:
            found = list(await self._database.write_once("queue/claim_on", **values, heads=heads))
        if not found and heads is not None and (seconds := remembered.put_off_seconds):
            self._database.signals.wake_after(seconds)
        elif not found:
            began_at = time.monotonic()
            found = list(await self._database.write_once("queue/claim", **values))
            remembered.looked_at_whole(time.monotonic() - began_at, len(found))
        remembered.claimed(found)
        return found
