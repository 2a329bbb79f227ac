"""What an annotation says is what the handler and the caller get: the first time, on replay, and from the database."""

from __future__ import annotations

import copy
import enum
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, SecretStr

from cortex_plane import Context, InvalidInput, JobFailed
from cortex_plane.durable.calls import input_digest
from cortex_plane.durable.values import JSON, WrongType, return_type, type_for
from cortex_plane.json import NotJson, dumps, loads
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Line(BaseModel):
    sku: str
    price: Decimal
    count: int = Field(default=1, alias="quantity", ge=1)


@dataclass
class Order:
    id: UUID
    at: datetime
    lines: list[Line]
    colours: set[Colour] = field(default_factory=set)
    seal: bytes = b""


class Place(NamedTuple):
    row: int
    seat: str


class Box(TypedDict):
    width: float
    opened: date | None


ORDER = Order(
    UUID(int=7),
    datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
    [Line(sku="a", price=Decimal("1.10"), quantity=2)],
    {Colour.RED, Colour.BLUE},
    b"\xff\x00",
)

VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (bool, True),
    (int, 2**63 - 1),
    (float, 3.0),
    (str, "text"),
    (list, [1, "a"]),
    (dict[str, Any], {"a": [1]}),
    (Line, ORDER.lines[0]),
    (Order, ORDER),
    (list[Order], [ORDER, ORDER]),
    (dict[str, Order], {"one": ORDER}),
    (dict[UUID, Colour], {UUID(int=1): Colour.RED}),
    (Box, {"width": 2.0, "opened": date(2026, 1, 2)}),
    (list[Box] | None, [{"width": 2.0, "opened": None}]),
    (Place, Place(3, "b")),
    (Colour, Colour.BLUE),
    (Level, Level.HIGH),
    (datetime, datetime(2026, 1, 2, 3, 4, 5, 678901)),  # noqa: DTZ001
    (datetime, datetime(2026, 1, 2, tzinfo=UTC)),
    (date, date(2026, 1, 2)),
    (time, time(10, 30)),
    (timedelta, timedelta(days=2, seconds=1.5)),
    (UUID, UUID(int=3)),
    (Decimal, Decimal("1.10")),
    (bytes, b"\x00\xff"),
    (Path, Path("a/b")),
    (tuple[int, str], (1, "a")),
    (tuple[Decimal, ...], (Decimal("1.0"), Decimal("2"))),
    (set[int], {1, 2, 3}),
    (frozenset[str], frozenset({"a", "b"})),
    (datetime | None, None),
    (datetime | None, datetime(2026, 1, 2)),  # noqa: DTZ001
    (int | str, "5"),
    (int | str, 5),
    (Line | Place, Place(1, "c")),
    (Literal["a", "b"], "b"),
    (Sequence[int], [1, 2]),
    (Mapping[str, date], {"a": date(2026, 1, 1)}),
    (list[tuple[Colour, set[date]]], [(Colour.RED, {date(2026, 1, 1)})]),
    (Annotated[int, Field(gt=3)], 4),
    (complex, 1 + 2j),
]


@pytest.mark.parametrize(("annotation", "value"), VALUES, ids=range(len(VALUES)))
def test_a_value_comes_back_as_its_annotation_says(annotation: Any, value: Any) -> None:
    kind = type_for(annotation)

    stored = loads(dumps(kind.encode(value, "result")))
    back = kind.decode(stored, "result")

    assert back == value
    assert type(back) is type(value)
    assert kind.encode(back, "result") == stored or isinstance(value, set | frozenset | Order | list | dict)


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (int, "five", "result"),
        (int, True, "result"),
        (int, 1.5, "result"),
        (str, 5, "result"),
        (bool, 1, "result"),
        (None, 0, "result"),
        (list[int], [1, "2"], "result[1]"),
        (Order, {"id": str(UUID(int=1)), "at": "soon", "lines": []}, "result.at"),
        (Line, {"sku": "a", "price": "1", "quantity": 0}, "result.quantity"),
        (tuple[int, str], [1], "result[1]"),
        (Colour, "green", "result"),
        (Annotated[int, Field(gt=3)], 3, "result"),
    ],
)
def test_a_value_that_is_something_else_is_refused_with_its_path(annotation: Any, value: Any, path: str) -> None:
    with pytest.raises(WrongType) as caught:
        type_for(annotation).decode(value, "result")

    assert caught.value.field == path


@pytest.mark.parametrize(
    ("annotation", "value", "becomes"),
    [(float, 3, 3.0), (Line, {"sku": "a", "price": "1"}, Line(sku="a", price=Decimal(1))), (tuple[int, ...], [1, 2], (1, 2))],
)
def test_a_harmless_difference_is_taken_for_what_it_means(annotation: Any, value: Any, becomes: Any) -> None:
    kind = type_for(annotation)
    back = kind.decode(kind.encode(value, "result"), "result")

    assert (back, type(back)) == (becomes, type(becomes))


def test_a_secret_is_not_stored_as_stars() -> None:
    kind = type_for(dict[str, SecretStr])

    with pytest.raises(NotJson, match="secrets are not stored"):
        kind.decode(kind.encode({"a": SecretStr("hidden")}, "result"), "result")


def test_what_a_function_returns_is_read_from_its_annotation() -> None:
    async def fetch() -> Order: ...  # type: ignore[empty-body]

    def later() -> Awaitable[date]: ...  # type: ignore[empty-body]

    def many() -> Iterable[date]: ...  # type: ignore[empty-body]

    def silent():  # type: ignore[no-untyped-def]
        ...

    def unknown() -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    def odd() -> Callable[[], int]: ...  # type: ignore[empty-body]

    class Fetcher:
        def __call__(self) -> date: ...  # type: ignore[empty-body]

        def method(self) -> date: ...  # type: ignore[empty-body]

    a_date = date(2026, 1, 1)
    assert return_type(fetch) is type_for(Order)
    assert [return_type(work).decode("2026-01-01", "") for work in (later, Fetcher(), Fetcher().method)] == [a_date] * 3
    assert return_type(many).decode(["2026-01-01"], "") == [a_date]
    assert return_type(Line) is type_for(Line)
    assert [return_type(work) for work in (silent, unknown, lambda: 1, print)] == [JSON] * 4


async def test_steps_give_the_same_types_the_first_time_and_on_replay(plane: TestPlane) -> None:
    seen: list[Any] = []

    async def order() -> Order:
        return ORDER

    def places() -> tuple[Place, ...]:
        return (Place(1, "a"), Place(2, "b"))

    async def ask() -> Colour:
        return Colour.BLUE

    async def charge(amount: Decimal) -> Decimal:
        return amount * 2

    @plane.agent("child")
    async def child(ctx: Context, order: Order, when: date) -> timedelta:
        return datetime.combine(when, time(), UTC) - order.at

    @plane.agent("parent")
    async def parent(ctx: Context, at: datetime, colours: set[Colour]) -> Order:
        made = await ctx.step("order", order)
        some = await ctx.step("places", places)
        answer = await ctx.llm("ask", ask)
        charged = await ctx.tool("charge", charge, Decimal("1.05"))
        gap = await ctx.call(child, made, when=date(2026, 3, 2))
        seen.append([at, colours, made, some, answer, charged, gap])
        await ctx.sleep(60)
        return made

    job = await parent.submit(datetime(2026, 1, 1, tzinfo=UTC), colours={Colour.RED})
    await plane.work()
    await plane.clock.advance(minutes=2)
    await plane.work()

    result = await job.result()
    expected = [
        datetime(2026, 1, 1, tzinfo=UTC),
        {Colour.RED},
        ORDER,
        (Place(1, "a"), Place(2, "b")),
        Colour.BLUE,
        Decimal("2.10"),
        timedelta(hours=11, minutes=30),
    ]
    assert seen == [expected, expected]
    assert [type(value) for value in seen[1]] == [type(value) for value in expected]
    assert result == ORDER
    assert await parent.job(job.id).result() == ORDER
    assert (await plane.job(job.id).result())["lines"] == [{"sku": "a", "price": "1.10", "quantity": 2}]


async def test_a_step_that_returns_something_else_fails_the_job_with_its_name(plane: TestPlane) -> None:
    async def count() -> int:
        return "five"  # type: ignore[return-value]

    @plane.agent("counts", max_retries=3)
    async def counts(ctx: Context) -> int:
        return await ctx.step("count", count)

    job = await counts.submit()
    await plane.work()

    with pytest.raises(JobFailed, match='the result of step "count" must be a whole number'):
        await job.result()
    assert (await job.job()).retry_count == 0


async def test_an_agent_that_returns_something_else_fails(plane: TestPlane) -> None:
    @plane.agent("dates")
    def dates(ctx: Context) -> date:
        return "tomorrow"  # type: ignore[return-value]

    job = await dates.submit()
    await plane.work()

    with pytest.raises(JobFailed, match="result: input should be a valid date"):
        await job.result()


async def test_without_an_annotation_a_step_gives_json_both_times(plane: TestPlane) -> None:
    seen: list[Any] = []

    def pair():  # type: ignore[no-untyped-def]
        return (1, 2)

    @plane.agent("pairs")
    async def pairs(ctx: Context) -> None:
        seen.append(await ctx.step("pair", pair))
        await ctx.sleep(60)

    await pairs.submit()
    await plane.work()
    await plane.clock.advance(minutes=2)
    await plane.work()

    assert seen == [[1, 2], [1, 2]]


async def test_a_rich_value_without_an_annotation_is_told_how_to_be_kept(plane: TestPlane) -> None:
    def now():  # type: ignore[no-untyped-def]
        return date(2026, 1, 1)

    @plane.agent("clock")
    async def clock(ctx: Context) -> None:
        await ctx.step("now", now)

    job = await clock.submit()
    await plane.work()

    with pytest.raises(JobFailed, match=r'the result of step "now" is of type date.*annotation'):
        await job.result()


async def test_a_recorded_result_that_the_code_reads_differently_now_is_a_change_of_the_code(plane: TestPlane) -> None:
    def count() -> int:
        return 5

    def day() -> date:
        raise AssertionError

    versions: list[Any] = [count, day]

    @plane.agent("counts", on_code_change="fail")
    async def counts(ctx: Context) -> None:
        await ctx.step("count", versions.pop(0))
        await ctx.sleep(60)

    job = await counts.submit()
    await plane.work()
    await plane.clock.advance(minutes=2)
    await plane.work()

    with pytest.raises(JobFailed, match="What is recorded is not what the code says now"):
        await job.result()


async def test_the_result_of_a_tool_that_does_not_fit_leaves_the_call_uncertain(plane: TestPlane) -> None:
    calls: list[str] = []

    async def pay(invocation_id: str = "") -> int:
        calls.append(invocation_id)
        return "paid"  # type: ignore[return-value]

    @plane.agent("pays", max_retries=3)
    async def pays(ctx: Context) -> None:
        await ctx.tool("pay", pay)

    job = await pays.submit()
    await plane.work()

    with pytest.raises(JobFailed, match='the result of step "pay" must be a whole number'):
        await job.result()
    checkpoint = (await plane.jobs.details(await job.job())).checkpoint
    assert checkpoint is not None
    [tool] = checkpoint["active_tools"]
    assert (tool["status"], len(calls)) == ("running", 1)


async def test_arguments_that_do_not_fit_are_refused_in_python(plane: TestPlane) -> None:
    @plane.agent("order")
    async def order(ctx: Context, order: Order, n: int = 1) -> None: ...

    wrong: Any = order
    with pytest.raises(InvalidInput) as caught:
        await wrong.submit({"id": str(UUID(int=1)), "at": "soon", "lines": []})
    assert caught.value.field == "payload.order.at"
    with pytest.raises(InvalidInput) as caught:
        await wrong.submit(ORDER, n="five")
    assert caught.value.field == "payload.n"
    assert await plane.jobs.list() == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Decimal("1.0"), Decimal("2.0")),
        ({1, 2}, {1, 3}),
        (b"a", b"b"),
        (Path("a"), Path("b")),
        (timedelta(1), timedelta(2)),
        (Place(1, "a"), Place(1, "b")),
        (Line(sku="a", price=Decimal(1)), Line(sku="b", price=Decimal(1))),
        (ORDER, Order(UUID(int=8), ORDER.at, ORDER.lines)),
    ],
)
def test_rich_arguments_of_steps_are_told_apart(one: Any, other: Any) -> None:
    assert input_digest((one,), {}) != input_digest((other,), {})
    assert input_digest((one,), {}) == input_digest((copy.deepcopy(one),), {})
