"""A misspelled option or argument is refused with what was meant, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane import Context, InvalidInput, RetryPolicy
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


class Poet:
    """Executes no graph: it is never asked to."""

    async def run(self, thread: Any, input: Any) -> Any: ...  # noqa: A002

    async def resume(self, thread: Any, answers: Any) -> Any: ...


async def release(ctx: Context, version: str, dry_run: bool = False) -> str:
    return version


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"quee": "slow"}, "queue"),
        ({"deadlin": 3}, "deadline"),
        ({"retries": 3}, "max_retries"),
        ({"max_retry": 3}, "max_retries"),
    ],
)
async def test_an_unknown_option_of_an_agent_is_refused(plane: TestPlane, options: dict[str, Any], meant: str) -> None:
    [name] = options

    with pytest.raises(InvalidInput, match=rf'Agent "release" has no option "{name}". Did you mean "{meant}"') as caught:
        plane.agent("release", **options)(release)

    assert caught.value.field == name
    assert isinstance(caught.value, TypeError)
    assert "release" not in plane.agents


async def test_options_of_functions_are_not_options_of_commands(plane: TestPlane) -> None:
    with pytest.raises(InvalidInput, match='Command "list" has no option "system_prompt"'):
        plane.command("list", ["ls"], system_prompt="Be brief")  # type: ignore[call-arg]


async def test_an_unknown_option_of_a_graph_is_refused(plane: TestPlane) -> None:
    with pytest.raises(InvalidInput, match=r'"langgraph:poet" has no option "on_crsh". Did you mean "on_crash"'):
        plane.graph("langgraph:poet", Poet(), on_crsh="fail")  # type: ignore[call-arg]


@pytest.mark.parametrize("retry", [{"max_retries": 3}, 3, "chain"])
async def test_a_retry_policy_of_an_agent_is_one(plane: TestPlane, retry: Any) -> None:
    with pytest.raises(InvalidInput, match="retry must be a RetryPolicy") as caught:
        plane.agent("release", retry=retry)(release)

    assert caught.value.field == "retry"


async def test_renamed_steps_are_a_dict_of_names(plane: TestPlane) -> None:
    with pytest.raises(InvalidInput, match="renamed_steps must be a dict"):
        plane.agent("release", renamed_steps=["build"])(release)  # type: ignore[call-overload]


async def test_an_agent_under_its_own_name_keeps_its_options(plane: TestPlane) -> None:
    plane.agent(release, queue="slow")  # type: ignore[call-overload]

    assert plane.agents["release"].config.queue == "slow"


async def test_an_unknown_option_of_a_submission_is_refused(plane: TestPlane) -> None:
    agent = plane.agent("release")(release)
    await plane.templates.save("weekly", "release", {"version": "1"})
    wrong: Any = {"prioritty": 5}

    for attempt in (
        lambda: plane.submit("release", {"version": "1"}, **wrong),
        lambda: plane.templates.submit("weekly", **wrong),
        lambda: plane.jobs.run_now("release", {"version": "1"}, **wrong),
    ):
        with pytest.raises(InvalidInput, match=r'has no option "prioritty". Did you mean "priority"') as caught:
            await attempt()
        assert (caught.value.field, isinstance(caught.value, TypeError)) == ("prioritty", True)
    with pytest.raises(InvalidInput, match=r'Agent "release" has no option "prioritty". Did you mean "priority"'):
        agent.options(**wrong)

    assert await plane.jobs.list() == []


async def test_an_unknown_option_of_a_schedule_is_refused(plane: TestPlane) -> None:
    plane.agent("release")(release)
    await plane.schedules.add("nightly", "agent:release", "0 3 * * *", input={"version": "1"})
    wrong: Any = {"timezon": "UTC"}

    with pytest.raises(InvalidInput, match=r'A schedule has no option "timezon". Did you mean "timezone"'):
        plane.schedule("0 3 * * *", **wrong)
    with pytest.raises(InvalidInput, match='Did you mean "timezone"'):
        await plane.schedules.add("weekly", "agent:release", "0 3 * * 1", **wrong)
    with pytest.raises(InvalidInput, match='Did you mean "timezone"'):
        await plane.schedules.change("nightly", **wrong)


async def test_a_misspelled_argument_is_refused_with_what_the_handler_takes(plane: TestPlane) -> None:
    agent: Any = plane.agent("release")(release)

    with pytest.raises(InvalidInput) as caught:
        await agent.submit(versoin="1.4.0")

    assert caught.value.field == "payload.versoin"
    assert str(caught.value) == (
        'There is no argument "versoin". Did you mean "version"? Agent "release" takes (version: str, dry_run: bool = False).'
    )
    assert await plane.jobs.list() == []


async def test_an_option_among_the_arguments_says_where_it_belongs(plane: TestPlane) -> None:
    agent: Any = plane.agent("release")(release)

    with pytest.raises(InvalidInput, match=r"\.options\(priority=\.\.\.\)\.submit\(\.\.\.\)"):
        await agent.submit("1.4.0", priority=5)

    await agent.options(priority=5, retry=RetryPolicy(max_retries=1)).submit("1.4.0")
    assert [job.priority for job in await plane.jobs.list()] == [5]


async def test_a_missing_argument_is_named(plane: TestPlane) -> None:
    agent: Any = plane.agent("release")(release)

    with pytest.raises(InvalidInput, match='The argument "version" is missing') as caught:
        await agent.submit(dry_run=True)

    assert caught.value.field == "payload.version"


async def test_an_argument_by_position_only_is_refused_when_the_agent_is_made(plane: TestPlane) -> None:
    async def move(ctx: Context, place: str, /) -> None:
        return None

    with pytest.raises(InvalidInput, match='takes "place" by position only'):
        plane.agent("move")(move)
