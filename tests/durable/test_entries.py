"""What is recorded of a call leaves out what goes without saying, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane import Context
from cortex_plane.durable.calls import input_digest
from cortex_plane.durable.schema import WITHOUT_ARGUMENTS, packed, whole
from cortex_plane.jobs.model import JobId
from cortex_plane.json import dumps, loads
from cortex_plane.testing import TestPlane

KINDS = st.sampled_from(["step", "llm", "tool", "call", "now", "approval"])
INPUTS = st.sampled_from([WITHOUT_ARGUMENTS, "0" * 16])
RESULTS: st.SearchStrategy[Any] = st.sampled_from([None, 0, False, "", [], {"a": None}])


@given(KINDS, INPUTS, st.integers(1, 9), st.integers(0, 9), RESULTS)
def test_an_entry_comes_back_as_it_was(kind: str, digest: str, order: int, after: int, result: Any) -> None:
    entry = {"kind": kind, "input": digest, "order": order, "after": after, "result": result}

    assert whole(loads(dumps(packed(entry, dumps(result))))) == entry


@given(KINDS, INPUTS)
def test_a_call_without_a_result_stays_without_one_unless_it_is_a_step(kind: str, digest: str) -> None:
    entry = {"kind": kind, "input": digest, "order": 2, "after": 1, "error": {"message": "no"}}

    assert {**whole(packed(entry, None)), "result": None} == {**entry, "result": None}
    assert kind == "step" or "result" not in whole(packed(entry, None))


def test_a_call_that_is_given_nothing_has_the_digest_of_nothing() -> None:
    assert input_digest((), {})[:16] == WITHOUT_ARGUMENTS


@pytest.mark.anyio
async def test_of_a_step_without_arguments_and_result_only_its_place_is_written(plane: TestPlane) -> None:
    @plane.agent("walker")
    async def walker(ctx: Context) -> None:
        await ctx.step("plain", nothing)
        await ctx.step("given", echo, 1)

    job = await walker.submit()
    await plane.work()

    stored = await plane.store.checkpoints.load(JobId(job.id))
    assert stored is not None
    steps = json.loads(stored.document)["memory_context"]["working_data"]["$cortex"]["steps"]
    assert steps["plain#1"] == {"order": 1}
    assert steps["given#1"] == {"order": 2, "input": input_digest((1,), {})[:16], "result": 1}


async def nothing() -> None:
    return None


async def echo(value: int) -> int:
    return value
