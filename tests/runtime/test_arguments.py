"""Arguments are checked at submission, from every entry, also by programs that do not have the agent's code."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from cortex_plane import Context, InvalidInput, JobFailed, JobStatus, Plane, Submission
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Line(BaseModel):
    sku: Annotated[str, Field(pattern="^[a-z]+$")]
    price: Decimal


@dataclass
class Order:
    id: UUID
    lines: list[Line]


seen: list[Any] = []


async def order(ctx: Context, order: Order, at: datetime, n: int = 1, size: Size | None = None) -> None:
    seen.append((order, at, n, size))


RIGHT: dict[str, Any] = {
    "order": {"id": str(UUID(int=1)), "lines": [{"sku": "a", "price": "1.50"}]},
    "at": "2026-01-01T10:00:00",
}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"n": "five"}, "n"),
    ({"n": "5"}, "n"),
    ({"n": True}, "n"),
    ({"n": 1.5}, "n"),
    ({"n": None}, "n"),
    ({"n": 2**64}, "n"),
    ({"at": "tomorrow"}, "at"),
    ({"at": 5}, "at"),
    ({"size": "huge"}, "size"),
    ({"order": []}, "order"),
    ({"order": {"id": "no id", "lines": []}}, "order.id"),
    ({"order": {"id": str(UUID(int=1)), "lines": [{"sku": "a"}]}}, "order.lines[0]"),
    ({"order": {"id": str(UUID(int=1)), "lines": [{"sku": "A", "price": 1}]}}, "order.lines[0].sku"),
    ({"colour": "red"}, "colour"),
]


@pytest.fixture
async def elsewhere(plane: TestPlane) -> AsyncIterator[Plane]:
    """A program on the same database that has none of the code."""
    plane.agent("order")(order)
    seen.clear()
    async with plane, Plane(settings=plane.settings, clock=plane.clock) as other:
        yield other


async def refused(work: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        await work
    assert str(caught.value.field).startswith(field)


@pytest.mark.parametrize(("wrong", "field"), WRONG)
async def test_a_wrong_argument_is_refused_with_its_field_by_a_program_without_the_code(
    elsewhere: Plane, wrong: dict[str, Any], field: str
) -> None:
    await refused(elsewhere.submit("order", {**RIGHT, **wrong}), f"payload.{field}")

    assert await elsewhere.jobs.list() == []


async def test_right_arguments_reach_the_handler_as_its_types(elsewhere: Plane, plane: TestPlane) -> None:
    job = await elsewhere.submit("order", {**RIGHT, "size": "large"})
    await plane.work()

    assert await job.result() is None
    placed = Order(UUID(int=1), [Line(sku="a", price=Decimal("1.50"))])
    assert seen == [(placed, datetime(2026, 1, 1, 10), 1, Size.LARGE)]  # noqa: DTZ001


async def test_a_missing_argument_is_refused_with_its_field(elsewhere: Plane) -> None:
    await refused(elsewhere.submit("order", {"at": RIGHT["at"]}), "payload.order")


async def test_every_entry_refuses_a_wrong_argument(elsewhere: Plane, plane: TestPlane) -> None:
    wrong, one = {**RIGHT, "n": "five"}, Submission("order", RIGHT)

    await refused(elsewhere.submit_many([one, Submission("order", wrong)]), "payload.n")
    await refused(elsewhere.jobs.run_now("order", wrong), "payload.n")
    await refused(elsewhere.templates.save("daily", "order", {"n": "five"}), "payload.n")
    await elsewhere.templates.save("daily", "order", {"n": 5})
    await refused(elsewhere.templates.submit("daily", wrong), "payload.n")
    await refused(elsewhere.templates.submit("daily"), "payload.order")
    await refused(elsewhere.groups.submit([one, Submission("order", wrong)]), "members[1].payload.n")
    await refused(elsewhere.groups.submit([one], callback=one), "callback.payload.group")
    await refused(elsewhere.schedules.add("nightly", "agent:order", "0 3 * * *", input=wrong), "input.n")
    await refused(elsewhere.schedules.add("nightly", "template:daily", "0 3 * * *", input=wrong), "input.n")
    await elsewhere.schedules.add("nightly", "agent:order", "0 3 * * *", input=RIGHT)
    await refused(elsewhere.schedules.change("nightly", input=wrong), "input.n")

    assert await elsewhere.jobs.list(agent="order") == []


async def test_a_child_with_wrong_arguments_fails_its_parent_without_retries(plane: TestPlane) -> None:
    plane.agent("order")(order)

    @plane.agent("parent", max_retries=3)
    async def parent(ctx: Context) -> None:
        await ctx.call("order", **{**RIGHT, "n": "five"})

    job = await parent.submit()
    await plane.work()

    with pytest.raises(JobFailed, match=r"payload\.n"):
        await job.result()
    assert (await job.job()).retry_count == 0
    assert [found.job_type for found in await plane.jobs.list()] == ["parent"]


async def test_an_agent_that_was_deployed_anew_takes_its_new_arguments_at_once(elsewhere: Plane, plane: TestPlane) -> None:
    await refused(elsewhere.submit("order", {**RIGHT, "colour": "red"}), "payload.colour")

    async def newer(ctx: Context, order: Order, at: datetime, colour: str = "") -> None: ...

    deployed = Plane(settings=plane.settings, clock=plane.clock)
    deployed.agent("order")(newer)
    async with deployed:
        await elsewhere.submit("order", {**RIGHT, "colour": "red"})


async def test_a_payload_that_the_code_does_not_take_any_more_fails_without_retries(plane: TestPlane) -> None:
    async def older(ctx: Context, days: int) -> None: ...

    before = Plane(settings=plane.settings, clock=plane.clock)
    before.agent("report", max_retries=5)(older)
    async with before:
        job = await before.submit("report", {"days": 3})

    @plane.agent("report", max_retries=5)
    async def report(ctx: Context, days: timedelta) -> None: ...

    await plane.work()

    ended = await plane.jobs.get(job.id)
    assert (ended.status, ended.attempt, ended.retry_count) == (JobStatus.FAILED, 1, 0)
    assert "payload.days" in str(ended.error_message)


async def test_a_handler_with_other_arguments_takes_any(plane: TestPlane) -> None:
    given: list[Any] = []

    async def anything(ctx: Context, /, n: int, **others: datetime) -> None:
        given.append((n, others))

    agent = plane.agent("any")(anything)
    await refused(plane.submit("any", {"n": "five", "more": RIGHT["at"]}), "payload.n")
    await refused(plane.submit("any", {"n": 5, "more": "soon"}), "payload.more")
    await refused(agent.submit(5, more="soon"), "payload.more")  # type: ignore[arg-type]
    await plane.submit("any", {"n": 5, "more": RIGHT["at"]})
    await plane.work()

    assert given == [(5, {"more": datetime(2026, 1, 1, 10)})]  # noqa: DTZ001


async def test_an_agent_inside_a_function_knows_the_types_around_it(plane: TestPlane) -> None:
    @dataclass
    class Here:
        day: datetime

    given: list[Any] = []

    @plane.agent("local")
    async def local(ctx: Context, here: Here) -> None:
        given.append(here)

    await local.submit(Here(datetime(2026, 1, 1)))  # noqa: DTZ001
    await plane.work()

    assert given == [Here(datetime(2026, 1, 1))]  # noqa: DTZ001


async def test_a_type_that_is_there_for_type_checkers_only_is_json(plane: TestPlane) -> None:
    given: list[Any] = []

    async def unresolved(ctx: Context, when: Nowhere, n: int) -> None:  # type: ignore[name-defined]  # noqa: F821
        given.append((when, n))

    plane.agent("unresolved")(unresolved)
    await refused(plane.submit("unresolved", {"when": "soon", "n": "five"}), "payload.n")
    await plane.submit("unresolved", {"when": "soon", "n": 5})
    await plane.work()

    assert given == [("soon", 5)]


async def test_a_schema_with_an_evil_pattern_is_checked_in_linear_time(plane: TestPlane) -> None:
    class Evil(BaseModel):
        text: Annotated[str, Field(pattern="^(a+)+$")]

    @plane.agent("evil")
    async def evil(ctx: Context, evil: Evil) -> None: ...

    await refused(plane.submit("evil", {"evil": {"text": "a" * 50_000 + "!"}}), "payload.evil.text")
