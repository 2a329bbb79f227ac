"""What must hold after the campaign, read with plain SQL and compared with slots that were reckoned independently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from cortex_plane.schedules.model import slot_key
from tests.contract.support import Raw
from tests.end_to_end.campaign.rules import MINUTE, SLOW, Rule
from tests.end_to_end.campaign.worker import CENTS

FAR = 24 * 60 * MINUTE
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Verdict:
    """`faults` is empty when all is well; the rest is what was seen."""

    slots: Counter[str] = field(default_factory=Counter)
    expected: int = 0
    charged: int = 0
    rescued: int = 0
    faults: list[str] = field(default_factory=list)


class Judge:
    """`failed` are the idempotency keys and runs about which a request to the execution service went wrong, `locked` the ids of
    schedules whose row was locked for a while. Without them nothing is excused of schedules whose runs are quick."""

    def __init__(
        self,
        raw: Raw,
        rules: Sequence[Rule],
        start: datetime,
        until: datetime,
        *,
        failed: Collection[str] | None = None,
        locked: Collection[str] = (),
    ) -> None:
        self._raw, self._rules, self._start, self._until = raw, rules, start, until
        self._outages, self._failed, self._locked = failed is not None, {*(failed or ())}, {*locked}
        self._verdict = Verdict()

    async def judge(self) -> Verdict:
        interrupted = await self._raw(
            "select j.id, j.job_key from cortex.job j join cortex.job_run r on r.job_id = j.id where r.error = 'worker lost'"
        )
        self._failed |= {str(value) for row in interrupted for value in row}
        slots = await self._slots()
        for rule in self._rules:
            self._judge_slots(rule, slots.get(rule.name, []))
        await self._judge_charges()
        await self._judge_chains(slots)
        await self._judge_overlaps()
        [(self._verdict.rescued,)] = await self._raw("select count(*) from cortex.job_run where error = 'worker lost'")
        return self._verdict

    async def _slots(self) -> dict[str, list[dict[str, Any]]]:
        """By the name of their schedule, oldest first."""
        columns = ("name", "schedule_id", "id", "run_id", "at", "status", "reason", "error_code", "replaced_by", "completed_at")
        found = await self._raw(
            "select s.name, s.id, r.id, r.run_id, r.scheduled_for, r.status, r.reason, r.error_code, r.replaced_by,"
            " r.completed_at"
            " from cortex.schedule_run r join cortex.schedule s on s.id = r.schedule_id order by r.scheduled_for"
        )
        slots: dict[str, list[dict[str, Any]]] = {}
        for row in found:
            slot = dict(zip(columns, row, strict=True))
            slot |= {"at": _moment(slot["at"]), "completed_at": _moment(slot["completed_at"])}
            slots.setdefault(slot["name"], []).append(slot)
        return slots

    def _judge_slots(self, rule: Rule, found: list[dict[str, Any]]) -> None:
        expected = rule.slots(self._start, self._until)
        seen = [slot for slot in found if slot["at"] <= self._until]
        self._verdict.expected += len(expected)
        self._verdict.slots.update(slot["reason"] or slot["error_code"] or slot["status"] for slot in seen)
        if [slot["at"] for slot in seen] != expected:
            self._fault(rule, f"its slots are {', '.join(format(slot['at'], '%H:%M') for slot in seen)}")
        for place, slot in enumerate(seen):
            if slot["status"] != "success" and not self._excused(rule, slot, found[:place], found[place + 1 :]):
                self._fault(rule, f"the slot of {slot['at']:%H:%M} is {slot['status']}: {slot['reason'] or slot['error_code']}")

    async def _judge_charges(self) -> None:
        """Of a slot that ran: one request, one job, and one charge of what the job says that it costs."""
        found = await self._raw(
            "select r.status, count(distinct q.id), count(distinct j.id), coalesce(sum(c.quantity), 0), min(q.outcome), s.name"
            " from cortex.schedule_run r join cortex.schedule s on s.id = r.schedule_id"
            " left join cortex.execution_request q on q.run_id = r.run_id left join cortex.job j on j.request_id = q.id"
            " left join cortex.charge_receipt c on c.request_id = q.id"
            " where r.status <> 'skipped' group by r.id, r.status, s.name"
        )
        for status, requests, jobs, cents, outcome, name in found:
            if status == "success" and (requests, jobs, cents, outcome) != (1, 1, CENTS, "COMPLETED"):
                self._verdict.faults.append(f"{name}: {requests} requests, {jobs} jobs, {cents} cents, {outcome}")
            elif status == "error" and (requests, jobs) not in ((1, 1), *([(0, 0)] if self._outages else [])):
                self._verdict.faults.append(f"{name}: {requests} requests, {jobs} jobs for a slot that was replaced")
            self._verdict.charged += status == "success"
        strays = await self._raw(
            "select count(*) from cortex.execution_request q"
            " left join cortex.schedule_run r on r.run_id = q.run_id where r.id is null"
        )
        twice = await self._raw("select request_id from cortex.charge_receipt group by request_id having count(*) > 1")
        overdrawn = await self._raw(
            "select g.id from cortex.execution_grant g where g.uses <>"
            " (select count(*) from cortex.execution_request q where q.grant_id = g.id)"
        )
        self._verdict.faults += [f"{count} runs of no slot" for ((count),) in strays if count]
        self._verdict.faults += [f"request {request} was charged twice" for ((request),) in twice]
        self._verdict.faults += [f"the uses of grant {grant} are not its runs" for ((grant),) in overdrawn]

    async def _judge_overlaps(self) -> None:
        """Under forbid no two runs of a schedule were ever open at once, and no run goes on of a slot that was replaced."""
        found = await self._raw(
            "select s.name, r.scheduled_for, j.created_at, j.finished_at, r.error_code, s.overlap from cortex.schedule_run r"
            " join cortex.schedule s on s.id = r.schedule_id join cortex.job j on j.id = r.run_id order by s.name, j.created_at"
        )
        for (name, at, _, ended, *_), (other, later, began, *_, overlap) in pairwise(found):
            if overlap == "forbid" and name == other and (ended is None or _moment(ended) > _moment(began)):
                both = f"{_moment(at):%H:%M} and {_moment(later):%H:%M}"
                self._verdict.faults.append(f"{name}: the runs of {both} were open at once")
        self._verdict.faults += [
            f"{name}: the run of {_moment(at):%H:%M} goes on, which was replaced"
            for name, at, _, ended, code, _ in found
            if code == "replaced" and ended is None
        ]

    async def _judge_chains(self, slots: dict[str, list[dict[str, Any]]]) -> None:
        """Every schedule stands at the slot that follows what was recorded, and one job waits for it."""
        found = await self._raw(
            "select s.name, s.next_run_at, j.status, (select count(*) from cortex.job o where o.schedule_id = s.id"
            " and o.queue = 'cortex' and o.status = 'PENDING')"
            " from cortex.schedule s left join cortex.job j on j.id = s.slot_job_id"
        )
        standing = {name: (_moment(at), status, waiting) for name, at, status, waiting in found}
        for rule in self._rules:
            at, status, waiting = standing[rule.name]
            recorded = slots.get(rule.name, [])
            last: datetime = recorded[-1]["at"] if recorded else self._start
            open_under_forbid = bool(recorded) and rule.overlap == "forbid" and recorded[-1]["status"] == "running"
            follows = last if open_under_forbid else rule.slots(last, last + FAR)[0]
            alive = ("RETRY", 0) if open_under_forbid else ("PENDING", 1)
            if at != follows or (status, waiting) != alive:
                self._fault(rule, f"its chain stands at {at}, not {follows}; its job is {status}, and {waiting} wait")

    def _excused(self, rule: Rule, slot: dict[str, Any], before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
        """A slot that met another that ran, or was replaced by one: where runs take longer than their rule allows, or where a
        fault has held up the one that was open."""
        if rule.overlap == "forbid" and slot["reason"] == "overlap":
            still_open = [other for other in before if other["completed_at"] is None or other["completed_at"] >= slot["at"]]
            return any(self._held_up(rule, other) for other in still_open)
        followers = [one["id"] for one in after]
        replaced = rule.overlap == "replace" and slot["error_code"] == "replaced" and slot["replaced_by"] in followers
        return replaced and self._held_up(rule, slot)

    def _held_up(self, rule: Rule, slot: dict[str, Any]) -> bool:
        """By a run that takes long, or by a fault of its own: a failed request about it, a lost worker, a lock."""
        if rule.agent == SLOW:
            return True
        schedule, at = str(slot["schedule_id"]), slot["at"]
        return schedule in self._locked or bool({str(slot["run_id"]), slot_key(schedule, at)} & self._failed)

    def _fault(self, rule: Rule, what: str) -> None:
        self._verdict.faults.append(f"{rule.name} ({rule.cron}, {rule.overlap}, {rule.agent}): {what}")


def _moment(stored: Any) -> Any:
    """As PostgreSQL gives it, or as SQLite keeps it."""
    return EPOCH + timedelta(microseconds=stored) if isinstance(stored, int) else stored
