"""Pruning against a model: any jobs, any rules, any links between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cortex_plane.agents.directory import Directory
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import DEFAULT_TENANT_ID, JobId, TenantId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.retention import service as pruning
from cortex_plane.retention.service import add_rule
from tests.contract.support import Raw, Scene
from tests.contract.test_repair import triggers_off
from tests.contract.test_retention import ENDED, a_group, bring, kept, prune

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Wish:
    """A job to be: links point to jobs before it, as they do in life."""

    tenant: int
    agent: int
    status: JobStatus
    age: int
    lasted: int
    retries: int | None
    parent: int | None
    group: int | None


TENANTS = (None, 0, 1)
AGENTS = ("echo", "other")
GROUPS = 2

rules_strategy = st.lists(
    st.tuples(
        st.sampled_from(TENANTS),
        st.sampled_from((None, *AGENTS)),
        st.sampled_from((None, *ENDED)),
        st.sampled_from((0, 5, 20, 1000)),
    ),
    max_size=6,
    unique_by=lambda made: made[:3],
)
jobs_strategy = st.lists(
    st.builds(
        Wish,
        tenant=st.integers(0, 1),
        agent=st.integers(0, 1),
        status=st.sampled_from((*ENDED, *ENDED, JobStatus.PENDING, JobStatus.RUNNING)),
        age=st.integers(0, 40),
        lasted=st.integers(0, 40),
        retries=st.none() | st.integers(1, 3),
        parent=st.none() | st.integers(1, 3),
        group=st.none() | st.integers(0, GROUPS - 1),
    ),
    min_size=1,
    max_size=9,
)


def linked(wishes: Sequence[Wish], place: int, back: int | None) -> int | None:
    return place - back if back is not None and place - back >= 0 else None


def chain(wishes: Sequence[Wish]) -> dict[int, int]:
    """Which job each one retries. Only what has ended is retried, and once."""
    found: dict[int, int] = {}
    for place, wish in enumerate(wishes):
        before = linked(wishes, place, wish.retries)
        if before is not None and before not in found.values() and wishes[before].status in ENDED:
            found[place] = before
    return found


def survivors(wishes: Sequence[Wish], rules: Sequence[tuple[Any, ...]], finished_groups: set[int]) -> set[int]:
    """What a person would keep, with the rules and the jobs on paper."""
    retried = chain(wishes)
    gone: set[int] = set()

    def live(place: int) -> bool:
        return wishes[place].status not in ENDED

    def successors(place: int) -> set[int]:
        nexts = {later for later, before in retried.items() if before == place}
        return nexts | {further for later in nexts for further in successors(later)}

    for place, wish in enumerate(wishes):
        fitting = [
            (tenant, agent, status, keep)
            for tenant, agent, status, keep in rules
            if tenant in (None, wish.tenant) and agent in (None, AGENTS[wish.agent]) and status in (None, wish.status)
        ]
        best = sorted(fitting, key=lambda r: (sum(part is not None for part in r[:3]), r[0] is not None, r[1] is not None))[-1:]
        expired = not live(place) and best and min(wish.age, wish.lasted) >= best[0][3]
        children = [other for other in range(len(wishes)) if linked(wishes, other, wishes[other].parent) == place]
        parent = linked(wishes, place, wish.parent)
        members = [other for other in range(len(wishes)) if wish.group is not None and wishes[other].group == wish.group]
        needed = (
            any(live(other) for other in successors(place))
            or any(live(other) for other in children)
            or (parent is not None and live(parent))
            or any(live(other) for other in members)
            or (wish.group is not None and wish.group not in finished_groups)
        )
        before = retried.get(place)
        if expired and not needed and (before is None or before in gone):
            gone.add(place)
    return set(range(len(wishes))) - gone


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(wishes=jobs_strategy, rules=rules_strategy, finished=st.sets(st.integers(0, GROUPS - 1)))
async def test_pruning_keeps_exactly_what_the_model_keeps(
    scene: Scene, raw: Raw, wishes: list[Wish], rules: list[tuple[Any, ...]], finished: set[int]
) -> None:
    tenants = [DEFAULT_TENANT_ID, await scene.store.tenants.find("acme") or await scene.tenant("acme")]
    groups = [await a_group(raw, finished=group in finished) for group in range(GROUPS)]
    wishes = [*sorted(wishes, key=lambda wish: -wish.age)]  # Who comes first is oldest.
    ids = await make(scene, raw, wishes, tenants, groups)
    directory = Directory(scene.store)
    for tenant, agent, status, keep in rules:
        await scene.agent(agent or "echo")
        name = None if tenant is None else ("default", "acme")[tenant]
        await add_rule(scene.store, directory, new_id, keep, tenant=name, agent=agent, status=status)
    small = pytest.MonkeyPatch()
    small.setattr(pruning, "BATCH", 2)
    small.setattr(pruning, "LOOKED_AT", 3)

    deleted = await prune(scene)
    again = await prune(scene)
    left = await kept(scene)
    small.undo()
    for table in ("job", "retention_rule"):
        await raw(f"delete from cortex.{table}")

    expected = {ids[place] for place in survivors(wishes, rules, finished)}
    assert left == expected
    assert (deleted, again) == (len(ids) - len(expected), 0)


async def make(scene: Scene, raw: Raw, wishes: Sequence[Wish], tenants: Sequence[TenantId], groups: Sequence[str]) -> list[JobId]:
    ids = sorted(JobId(new_id()) for _ in wishes)
    retried = chain(wishes)
    for place, wish in enumerate(wishes):
        await scene.submit(AGENTS[wish.agent], id=ids[place], tenant_id=tenants[wish.tenant])
        await bring(raw, ids[place], wish.status)
        columns = {"created_at": ago(raw, wish.age)}
        if wish.status in ENDED:
            columns["finished_at"] = ago(raw, min(wish.age, wish.lasted))
        if place in retried:
            columns["retry_of"] = f"'{ids[retried[place]]}'"
        if (parent := linked(wishes, place, wish.parent)) is not None:
            columns["parent_id"] = f"'{ids[parent]}'"
        if wish.group is not None:
            columns["group_id"] = f"'{groups[wish.group]}'"
        written = ", ".join(f"{column} = {value}" for column, value in columns.items())
        async with triggers_off(raw):
            await raw(f"update cortex.job set {written} where id = '{ids[place]}'")
    return ids


def ago(raw: Raw, seconds: float) -> str:
    return f"{raw.now} - {round(seconds * 1_000_000)}" if raw.kind == "sqlite" else f"{raw.now} - interval '{seconds} s'"
