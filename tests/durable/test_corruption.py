"""A checkpoint that is not exactly what was written is never run: the job fails, by name, and the blob is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex_plane import CheckpointCorrupted, Context, JobFailed, JobStatus
from cortex_plane.durable.load import checked_blob
from cortex_plane.durable.schema import StoredCheckpoint, resealed
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import AgentId, JobId
from cortex_plane.json import normal
from cortex_plane.metrics.service import counted
from cortex_plane.testing import TestPlane
from tests.durable.blobs import a_blob, same_json, stored
from tests.end_to_end.inspection import query

pytestmark = pytest.mark.anyio


async def crashed_job(plane: TestPlane) -> tuple[Any, list[str]]:
    """A job that died after its first step, and what its steps have done."""
    done: list[str] = []

    async def work(what: str) -> dict[str, Any]:
        done.append(what)
        return {"what": what, "number": 1.5}

    @plane.agent("victim")
    async def victim(ctx: Context) -> str:
        await ctx.step("first", work, "first")
        await ctx.step("second", work, "second")
        return "done"

    job = await victim.submit()
    plane.crash_after("first")
    await plane.work()
    assert done == ["first"]
    return job, done


DAMAGES: dict[str, Any] = {
    "CRC mismatch": lambda blob: {**blob, "step_index": 7},
    "Missing required field: agent_id": lambda blob: {name: value for name, value in blob.items() if name != "agent_id"},
    "Checkpoint is not a JSON object": lambda blob: [blob],
    "future version 99": lambda blob: json.loads(resealed({**blob, "schema_version": 99})),
    "Agent/checkpoint mismatch": lambda blob: json.loads(resealed({**blob, "agent_id": new_id()})),
    "replaced by hand": lambda blob: json.loads(resealed({**blob, "checkpoint_id": new_id()})),
    "status: Input should be": lambda blob: json.loads(resealed({**blob, "status": "sideways"})),
}


@pytest.mark.parametrize("message", DAMAGES)
async def test_a_damaged_checkpoint_fails_its_job_and_is_kept(plane: TestPlane, database_url: str, message: str) -> None:
    job, done = await crashed_job(plane)
    noticed = noticed_corruptions()
    store = plane.store
    before = await store.checkpoints.load(job.id)
    assert before is not None
    damaged = json.dumps(DAMAGES[message](json.loads(before.document)))
    await query(database_url, f"update cortex.job set checkpoint = '{damaged}' where id = '{job.id}'")

    await plane.work()

    with pytest.raises(JobFailed, match="Checkpoint corruption detected: ") as failure:
        await job.result(timeout=5)
    assert message in str(failure.value)
    assert done == ["first"]
    assert noticed_corruptions() == noticed + 1
    last = (await plane.jobs.history(job.id))[-1]
    assert (last.new_status, last.metadata["corruption_detected"]) == (JobStatus.FAILED, True)
    kept = await store.checkpoints.load(job.id)
    assert kept is not None
    assert json.loads(kept.document) == json.loads(damaged)


async def test_a_result_that_was_kept_apart_and_changed_is_refused(plane: TestPlane, database_url: str) -> None:
    async def large() -> str:
        return "x" * 5000

    @plane.agent("large")
    async def agent(ctx: Context) -> None:
        await ctx.step("large", large)
        await ctx.step("again", large)

    job = await agent.submit()
    plane.crash_after("large")
    await plane.work()
    on = "" if database_url.startswith("sqlite") else " on cortex.job_blob"
    await query(database_url, f"drop trigger blob_no_update{on}")
    await query(database_url, "update cortex.job_blob set content = replace(content, 'xx', 'xy')")
    await plane.work()

    with pytest.raises(JobFailed, match="in job_blob is not what was written"):
        await job.result(timeout=5)


async def test_fields_that_a_newer_schema_removed_are_dropped(plane: TestPlane, database_url: str) -> None:
    job, done = await crashed_job(plane)
    before = await plane.store.checkpoints.load(job.id)
    assert before is not None
    blob = json.loads(before.document)
    blob["removed"] = 1
    blob["memory_context"]["removed"] = 2
    blob["memory_context"]["token_usage"]["removed"] = 3
    blob["memory_context"]["working_data"]["$cortex"]["removed"] = 4
    blob["memory_context"]["working_data"]["$cortex"]["steps"]["first#1"]["removed"] = 5
    blob["execution_log"][1]["removed"] = 6
    await query(database_url, f"update cortex.job set checkpoint = '{resealed(blob)}' where id = '{job.id}'")
    assert "removed" not in json.dumps(await plane.checkpoints.get(job.id))

    await plane.work()

    assert await job.result(timeout=5) == "done"
    assert done == ["first", "second"]
    assert "removed" not in json.dumps(await plane.checkpoints.get(job.id))


# -- by the thousand, without a database ---------------------------------------------------------------


@given(st.data())
@settings(max_examples=400)
def test_no_changed_byte_goes_unnoticed(data: st.DataObject) -> None:
    document = stored().document
    place = data.draw(st.integers(0, len(document) - 1))
    other = data.draw(st.characters(min_codepoint=32, max_codepoint=126).filter(lambda letter: letter != document[place]))
    damaged = document[:place] + other + document[place + 1 :]
    if same_json(document, damaged):
        return

    with pytest.raises(CheckpointCorrupted):
        checked_blob(stored(document=damaged))


@given(st.sampled_from(sorted(a_blob())))
def test_no_field_can_be_dropped(name: str) -> None:
    blob = {field: value for field, value in a_blob().items() if field != name}

    with pytest.raises(CheckpointCorrupted):
        checked_blob(stored(document=json.dumps(blob)))
    if name != "crc32":
        with pytest.raises(CheckpointCorrupted, match=f"Missing required field: {name}"):
            checked_blob(stored(document=resealed(blob)))


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(json_values, json_values)
@settings(max_examples=300)
def test_no_edited_value_goes_unnoticed(before: Any, after: Any) -> None:
    before, after = normal(before), normal(after)
    blob = a_blob(working_data={"value": before})
    edited = json.loads(blob_text(blob))
    edited["memory_context"]["working_data"]["value"] = after
    if json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True):
        return

    with pytest.raises(CheckpointCorrupted, match="CRC mismatch"):
        checked_blob(stored(document=json.dumps(edited)))


def blob_text(blob: dict[str, Any]) -> str:
    return resealed(blob)


ODD_VALUES: list[Any] = [
    *(1e22, 1.5e300, -0.0, 2**63, 2**64 - 1, -(2**63), 1e19, 1e30, 0.1, 5e-324),
    *("\U0001f600", {"\U0001f600": 1, "z": 2, "": 3}, [[[[[]]]]]),
]


@pytest.mark.parametrize("value", ODD_VALUES, ids=repr)
async def test_every_value_that_is_admitted_survives_the_database_with_the_same_crc(plane: TestPlane, value: Any) -> None:
    async def give() -> Any:
        return value

    @plane.agent("odd")
    async def odd(ctx: Context) -> Any:
        found = await ctx.step("give", give)
        ctx.memory.data["value"] = value
        await ctx.step("again", give)
        return found

    job = await odd.submit()
    plane.crash_after("give")
    plane.crash_after("again")
    for _ in range(3):
        await plane.work()

    assert plane.crashes == 2
    assert normal(await job.result(timeout=5)) == normal(value)


@pytest.mark.parametrize("depth", [199, 200])
async def test_the_deepest_value_that_is_admitted_can_be_gone_on_from(plane: TestPlane, depth: int) -> None:
    async def give() -> Any:
        value: Any = []
        for _ in range(depth - 1):
            value = [value]
        return value

    @plane.agent("deep")
    async def deep(ctx: Context) -> bool:
        found = await ctx.step("give", give)
        ctx.memory.data["value"] = found
        called = await ctx.tool("call", give)
        await ctx.step("again", give)
        return bool(found == called)

    job = await deep.submit()
    plane.crash_after("call")
    plane.crash_after("again")
    for _ in range(3):
        await plane.work()

    assert plane.crashes == 2
    assert await job.result(timeout=5) is True


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "a\x00b", "\ud800", {1: 2}, {"a"}, 2**64, 10**400], ids=ascii)
async def test_every_value_that_is_not_admitted_is_refused_at_the_write(plane: TestPlane, value: Any) -> None:
    async def give() -> Any:
        return value

    @plane.agent("bad")
    async def bad(ctx: Context) -> None:
        await ctx.step("give", give)

    job = await bad.submit()
    await plane.work()

    with pytest.raises(JobFailed, match='the result of step "give"'):
        await job.result(timeout=5)


def test_the_shape_is_the_published_schema() -> None:
    import jsonschema  # type: ignore[import-untyped]

    from cortex_plane.durable.service import Checkpoints

    schema = Checkpoints(None).schema()  # type: ignore[arg-type]
    jsonschema.validate(json.loads(stored().document), schema)
    for name in schema["required"]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({field: value for field, value in a_blob().items() if field != name}, schema)


def test_ids_are_as_they_should_be() -> None:
    found = stored()
    assert isinstance(found, StoredCheckpoint)
    assert checked_blob(found)["checkpoint_id"] == found.checkpoint_id
    assert (JobId(found.job_id), AgentId(found.agent_id)) == (found.job_id, found.agent_id)


def noticed_corruptions() -> int:
    return int(sum(times for (name, _), times in counted().items() if name == "checkpoint_corruptions"))
