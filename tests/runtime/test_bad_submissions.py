"""A wrong submission is refused with the field named, nothing is stored, and the plane goes on."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from cortex_plane import Context, CortexError, InvalidInput, NotFound, Submission, UnknownAgent
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio

NESTED: Any = []
for _ in range(300):
    NESTED = [NESTED]

# The field, a wrong value, and a part of what is said about it.
WRONG: list[tuple[str, Any, str]] = [
    ("payload", ["word"], "must be a dict"),
    ("payload", "word", "must be a dict"),
    ("payload", 0, "must be a dict"),
    ("payload", {"word": float("nan")}, "payload.word is nan"),
    ("payload", {"list": [1.0, float("-inf")]}, r"payload.list\[1\] is -inf"),
    ("payload", {"word": "a\x00b"}, "payload.word contains a NUL"),
    ("payload", {"a\x00b": 1}, "NUL"),
    ("payload", {"word": "\ud800"}, "payload.word contains half of a surrogate"),
    ("payload", {"word": {1, 2}}, "payload.word is of type set"),
    ("payload", {"word": b"bytes"}, "payload.word is of type bytes"),
    ("payload", {5: "word"}, "keys must be text"),
    ("payload", {"word": NESTED}, "nested more than"),
    ("payload", {"word": "x" * 1024 * 1024}, r"1,048,\d+ bytes of JSON; the limit is 1,048,576"),
    ("queue", "", "queue must be text of 1 to 200"),
    ("queue", "  ", "queue must be text"),
    ("queue", "x" * 201, "queue must be text"),
    ("queue", "a\x00b", "NUL"),
    ("queue", 5, "queue must be text"),
    ("priority", 1_000_001, "priority must be a whole number"),
    ("priority", -1_000_001, "priority must be a whole number"),
    ("priority", 1.5, "priority must be a whole number"),
    ("priority", True, "priority must be a whole number"),
    ("priority", "high", "priority must be a whole number"),
    ("priority", None, "priority must be a whole number"),
    ("max_retries", 101, "from 0 to 100"),
    ("max_retries", -1, "from 0 to 100"),
    ("max_retries", 2.0, "from 0 to 100"),
    ("max_retries", True, "from 0 to 100"),
    ("max_retries", "3", "from 0 to 100"),
    ("retry", "chain", "retry"),
    ("run_at", datetime(1970, 1, 21, tzinfo=UTC), "must lie between 2000 and 2200"),
    ("run_at", datetime(9999, 12, 31, tzinfo=UTC), "must lie between 2000 and 2200"),
    ("run_at", "tomorrow", "must be a datetime"),
    ("run_at", date(2026, 1, 1), "must be a datetime"),
    ("run_at", 1_767_600_000, "must be a datetime"),
    ("delay", -1, "from 0 seconds to 100 years"),
    ("delay", timedelta(seconds=-1), "from 0 seconds to 100 years"),
    ("delay", timedelta(days=36_501), "from 0 seconds to 100 years"),
    ("delay", float("nan"), "must be a number of seconds"),
    ("delay", float("inf"), "must be a number of seconds"),
    ("delay", "5 minutes", "must be a number of seconds"),
    ("run_timeout", 0, "must be more than 0"),
    ("run_timeout", -5, "must be more than 0"),
    ("run_timeout", float("nan"), "must be a number of seconds"),
    ("run_timeout", "5", "must be a number of seconds"),
    ("serial_key", "", "serial_key must be text"),
    ("serial_key", "\ud800", "surrogate"),
    ("serial_key", "x" * 201, "serial_key must be text"),
    ("created_by", "", "created_by must be text"),
    ("tags", "urgent", "tags must be a list"),
    ("tags", ["x"] * 51, "tags must be a list"),
    ("tags", ["fine", ""], r"tags\[1\] must be text"),
    ("tags", [5], r"tags\[0\] must be text"),
    ("tags", 5, "tags must be a list"),
    ("tags", None, "tags must be a list"),
]


@pytest.fixture
def echoing(plane: TestPlane) -> TestPlane:
    @plane.agent("echo")
    async def echo(ctx: Context, /, **words: Any) -> dict[str, Any]:
        return words

    return plane


async def assert_nothing_is_stored_and_work_goes_on(plane: TestPlane) -> None:
    assert await plane.jobs.list() == []
    job = await plane.submit("echo", {"word": "still here"})
    await plane.work()
    assert await job.result() == {"word": "still here"}


async def surprise(plane: TestPlane, field: str, value: Any, message: str, agent: Any = "echo") -> str | None:
    """What went otherwise than it should; None when the value was refused as it ought to be."""
    options = {} if field == "agent" else {field: value}
    try:
        await plane.submit(value if field == "agent" else agent, **{"payload": {}, **options})
    except (InvalidInput, NotFound) as refusal:
        named = str(getattr(refusal, "field", field)).split(".")[0].split("[")[0]
        if named == field and re.search(message, str(refusal)):
            return None
        return f"{field}={value!r:.60} was refused naming {named}: {refusal}"
    except Exception as error:
        return f"{field}={value!r:.60} raised {type(error).__name__}: {error}"
    return f"{field}={value!r:.60} was taken"


async def test_a_wrong_value_is_refused_with_its_field_named(echoing: TestPlane) -> None:
    surprises = [await surprise(echoing, field, value, message) for field, value, message in WRONG]

    assert [found for found in surprises if found] == []
    await assert_nothing_is_stored_and_work_goes_on(echoing)


async def test_run_at_and_delay_exclude_each_other(echoing: TestPlane) -> None:
    with pytest.raises(InvalidInput, match="run_at or delay, not both") as refusal:
        await echoing.submit("echo", run_at=datetime(2026, 6, 1, tzinfo=UTC), delay=5)

    assert refusal.value.field == "run_at"
    await assert_nothing_is_stored_and_work_goes_on(echoing)


async def test_an_unknown_agent_is_refused_with_a_guess(echoing: TestPlane) -> None:
    with pytest.raises(UnknownAgent, match=r'There is no agent "ecoh"\. Did you mean "echo"\? Known agents: echo'):
        await echoing.submit("ecoh", {})

    await assert_nothing_is_stored_and_work_goes_on(echoing)


async def test_a_name_that_cannot_be_an_agents_is_refused(echoing: TestPlane) -> None:
    names = ["", "   ", "a\x00b", "\ud800", "x" * 201, None, 5]
    surprises = [await surprise(echoing, "agent", name, "agent") for name in names]

    assert [found for found in surprises if found] == []
    await assert_nothing_is_stored_and_work_goes_on(echoing)


async def test_an_unknown_tenant_is_refused(echoing: TestPlane) -> None:
    tenants = ["nobody", "", "a\x00b", "\ud800", None, 5]
    surprises = [await surprise(echoing, "tenant", tenant, "tenant") for tenant in tenants]

    assert [found for found in surprises if found] == []
    await assert_nothing_is_stored_and_work_goes_on(echoing)


async def test_a_call_that_does_not_fit_the_handler_is_refused(plane: TestPlane) -> None:
    @plane.agent("add")
    async def add(ctx: Context, left: int, right: int = 0) -> int:
        return left + right

    with pytest.raises(InvalidInput, match=r'argument "left" is missing.*takes \(left: int, right: int = 0\)'):
        await add.submit()  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match='no argument "up"'):
        await add.submit(1, up=2)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="Too many positional arguments"):
        await add.submit(1, 2, 3)  # type: ignore[call-arg]

    assert await plane.jobs.list() == []


async def test_of_many_submissions_all_are_stored_or_none(echoing: TestPlane) -> None:
    submissions = [Submission("echo", {"number": number}) for number in range(50)]

    with pytest.raises(CortexError):
        await echoing.submit_many([*submissions, Submission("echo", {"number": float("nan")})])

    await assert_nothing_is_stored_and_work_goes_on(echoing)


async def test_the_largest_payload_and_the_extremes_are_taken(echoing: TestPlane) -> None:
    word = "x" * (1024 * 1024 - len('{"word":""}'))
    job = await echoing.submit(
        "echo", {"word": word}, priority=-1_000_000, max_retries=100, tags=["x" * 200] * 50, queue="q" * 200, delay=0
    )
    await echoing.work(queues=["q" * 200])

    assert (await job.result())["word"] == word
