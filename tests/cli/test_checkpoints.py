"""Commands about the inside of durable jobs: show, watch, fork, replay, checkpoints, schema."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Context, Plane
from cortex_plane.errors import Unavailable
from cortex_plane.jobs.follow import follow_job
from tests.cli.conftest import Cortex
from tests.end_to_end.inspection import query

RunIn = Callable[..., Any]

APP = """
from cortex_plane import Context, Plane

plane = Plane("{url}")

async def work(name):
    return name

@plane.agent("release", max_retries=0)
async def release(ctx: Context, version: str = "1") -> str:
    {body}
"""
BODY = """await ctx.step("build", work, version)
    await ctx.step("test", work, version)
    return await ctx.step("deploy", work, version)"""

STEPS = """\
Steps
  STEP  NAME  TOOK  TOOLS  RESULT
     1  build <span>  "1.4"
     2  test <span>  "<cut>
     3  notify <span>  1  true
"""

WATCHED = """\
<clock>  ○ PENDING  submitted
<clock>  ▶ RUNNING  attempt 1 begins
<clock>  step  build <span>  "1.4"
<clock>  warning  slow tests  {"seconds": 3}
<clock>  step  test <span>  "<cut>
<clock>  progress  ━━━━━━━━━━━━━━━━━━━━──────────  2 of 3, 67%  nearly
<clock>  step  notify <span>  true
<clock>  ✓ COMPLETED  done after <span>
1,200 prompt + 34 completion tokens
"released 1.4"
"""


def cut(text: str) -> str:
    """How much of a long result fits on its line depends on the width of the duration before it."""
    return re.sub("f{60,}…", "<cut>", text)


def release(plane: Plane) -> None:
    async def build(version: str) -> str:
        return version

    async def test() -> str:
        return "f" * 200

    async def notify() -> bool:
        return True

    @plane.agent("child", max_retries=0)
    async def child(ctx: Context) -> str:
        return "ok"

    @plane.agent("release", max_retries=0)
    async def agent(ctx: Context, version: str, call: bool = False) -> str:
        await ctx.step("build", build, version)
        ctx.log.warning("slow tests", seconds=3)
        await ctx.step("test", test)
        ctx.usage(prompt_tokens=1200, completion_tokens=34)
        ctx.progress(2, 3, "nearly")
        await ctx.tool("notify", notify)
        if call:
            await ctx.call(child)
        return f"released {version}"


@pytest.fixture
def job_id(database_url: str, run_in: RunIn) -> str:
    return str(run_in(database_url, released))


async def released(plane: Plane) -> str:
    release(plane)
    job = await plane.submit("release", {"version": "1.4"})
    await plane.run_worker(until_idle=True)
    return str(job.id)


def write_app(folder: Path, url: str, body: str = BODY) -> str:
    (folder / "app.py").write_text(APP.format(url=url, body=body))
    return "app.py"


def run_app(folder: Path, url: str, cortex: Cortex, body: str = BODY) -> str:
    """A job of the app, run to its end; its id."""
    app = write_app(folder, url, body)
    cortex("jobs", "submit", "release", "version=1.4", "--app", app)
    cortex("worker", app, "--until-idle")
    found: str = json.loads(cortex("jobs", "list", "--json", "--database-url", url).out)["jobs"][0]["id"]
    return found


def damage(url: str, job_id: str, document: str) -> None:
    asyncio.run(query(url, f"update cortex.job set checkpoint = '{document}' where id = '{job_id}'"))


# -- show and watch -----------------------------------------------------------------------------------


def test_steps_tokens_and_progress_are_shown(cortex: Cortex, database_url: str, job_id: str) -> None:
    shown = cortex("jobs", "show", job_id, "--database-url", database_url).shown

    assert STEPS in cut(shown)
    assert "  progress  ━━━━━━━━━━━━━━━━━━━━──────────  2 of 3, 67%  nearly\n" in shown
    assert "  tokens  1,200 prompt + 34 completion tokens\n" in shown


def test_parent_and_children_are_shown(cortex: Cortex, database_url: str, run_in: RunIn) -> None:
    async def family(plane: Plane) -> tuple[str, str]:
        release(plane)
        job = await plane.submit("release", {"version": "1.4", "call": True})
        await plane.run_worker(until_idle=True)
        (child,) = await plane.jobs.list(agent="child")
        return job.id, child.id

    parent, child = run_in(database_url, family)

    assert (
        f"Children\n  JOB                                   STATUS       AGENT\n  {child}"
        in cortex("jobs", "show", parent, "--database-url", database_url).out
    )
    document = json.loads(cortex("jobs", "show", parent, "--json", "--database-url", database_url).out)
    assert [one["id"] for one in document["children"]] == [child]
    assert [one["step_id"] for one in document["steps"]] == ["build", "test", "notify", "child"]
    assert f"parent    {parent}" in cortex("jobs", "show", child, "--database-url", database_url).out


def test_a_damaged_checkpoint_is_shown_as_such(cortex: Cortex, database_url: str, job_id: str) -> None:
    damage(database_url, job_id, '{"checkpoint_id": 1}')

    shown = cortex("jobs", "show", job_id, "--database-url", database_url).shown
    dumped = cortex("checkpoints", "show", job_id, "--database-url", database_url)

    assert "Checkpoint, damaged\n  missing_field: Missing required field: schema_version\n" in shown
    assert "Steps" not in shown
    assert (dumped.code, json.loads(dumped.out)) == (1, {"checkpoint_id": 1})
    assert dumped.err == "Damaged, missing_field: Missing required field: schema_version\n"


def test_segments_that_do_not_belong_to_a_checkpoint_are_shown_beside_it(cortex: Cortex, database_url: str, job_id: str) -> None:
    now = "cortex.now()" if database_url.startswith("postgres") else "0"
    row = f"('{job_id}', '{'0' * 64}', '{{\"step_index\": 9}}', 1, {now})"
    asyncio.run(query(database_url, f"insert into cortex.job_blob (job_id, sha256, content, seq, created_at) values {row}"))

    dumped = cortex("checkpoints", "show", job_id, "--database-url", database_url)

    assert dumped.code == 1
    parts = json.loads(dumped.out)
    assert (parts["checkpoint"]["status"], parts["segments"]) == ("completed", [{"step_index": 9}])
    assert dumped.err == "Damaged, segment_unknown: segment 1 is in job_blob, and the checkpoint ends with 0.\n"


def test_watching_tells_steps_lines_progress_and_tokens(cortex: Cortex, database_url: str, job_id: str) -> None:
    result = cortex("jobs", "watch", job_id, "--database-url", database_url)

    assert (result.code, result.err) == (0, "")
    assert cut(result.shown) == WATCHED


def test_a_watch_goes_on_after_a_lost_connection(
    cortex: Cortex, database_url: str, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the stream breaks, as when a server is restarted; nothing is told twice."""
    monkeypatch.setattr("cortex_plane.jobs.cli_watch.AGAIN_SECONDS", 0.0)
    monkeypatch.setattr("cortex_plane.jobs.follow.LAST_WORDS_SECONDS", 0.0)
    lost = iter([3, 1, None])

    async def breaking(*arguments: Any) -> Any:
        left = next(lost)
        async for told in follow_job(*arguments):
            if left == 0:
                raise Unavailable("the server went away")
            left = None if left is None else left - 1
            yield told

    monkeypatch.setattr("cortex_plane.jobs.service.follow_job", breaking)
    result = cortex("jobs", "watch", job_id, "--database-url", database_url)

    assert cut(result.shown) == WATCHED
    assert result.err == "Lost the database for now, trying again: the server went away\n" * 2


# -- fork and replay ----------------------------------------------------------------------------------


def test_a_fork_says_what_it_takes_over_and_what_to_do_next(cortex: Cortex, database_url: str, job_id: str) -> None:
    result = cortex("jobs", "fork", job_id, "--from-step", "notify", "--database-url", database_url)

    assert (result.code, result.err) == (0, "")
    assert result.shown.replace(database_url, "<url>") == (
        "Forked as <id>\n  takes over  build#1, test#1\n  begins at  notify\n"
        "To follow it:  cortex jobs watch <id> --database-url <url>\n"
        "If no worker runs:  cortex worker APP --database-url <url>\n"
    )
    document = json.loads(cortex("jobs", "fork", job_id, "--from-step", "build", "--json", "--database-url", database_url).out)
    assert (document["fork_of"], document["taken_over"]) == (job_id, [])
    assert (
        json.loads(cortex("jobs", "show", document["id"], "--json", "--database-url", database_url).out)["job"]["created_by"]
        == "cli:ada"
    )


def test_an_unknown_step_is_refused_with_those_that_are_recorded(cortex: Cortex, database_url: str, job_id: str) -> None:
    result = cortex("jobs", "fork", job_id, "--from-step", "deploy", "--database-url", database_url)

    assert (result.code, result.out) == (2, "")
    assert "Recorded: build#1, test#1, notify#1." in result.err


@pytest.mark.parametrize(
    ("body", "code", "shown"),
    [
        (BODY, 0, "✓ same  3 calls were answered from the record\n"),
        (BODY.replace('"test"', '"check"'), 1, "✗ different  1 call was answered from the record\n"),
    ],
    ids=["same", "different"],
)
def test_a_replay_prints_its_verdict(cortex: Cortex, folder: Path, body: str, code: int, shown: str) -> None:
    url = f"sqlite:///{folder}/x.db"
    job_id = run_app(folder, url, cortex)
    app = write_app(folder, url, body)

    result = cortex("jobs", "replay", job_id, app)

    assert (result.code, result.err) == (code, "")
    assert result.out.startswith(shown)
    document = json.loads(cortex("jobs", "replay", job_id, app, "--json").out)
    assert (document["id"], document["verdict"]) == (job_id, shown.split()[1])


def test_a_replay_of_a_job_that_has_not_ended_is_no_failure(cortex: Cortex, folder: Path) -> None:
    url = f"sqlite:///{folder}/x.db"
    job_id = run_app(folder, url, cortex, 'await ctx.step("build", work, version)\n    await ctx.sleep(3600)')

    result = cortex("jobs", "replay", job_id, "app.py")

    assert (result.code, result.out.split()[1]) == (0, "ongoing")


# -- checkpoints and schema ---------------------------------------------------------------------------


def test_verify_finds_what_a_worker_could_not_go_on_from(
    cortex: Cortex, database_url: str, run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")

    async def asleep(plane: Plane) -> list[str]:
        async def nothing() -> None: ...

        @plane.agent("sleeper")
        async def sleeper(ctx: Context) -> None:
            await ctx.step("a", nothing)
            await ctx.sleep(3600)

        jobs = [await sleeper.submit() for _ in range(2)]
        await plane.run_worker(until_idle=True)
        return [job.id for job in jobs]

    words = ("checkpoints", "verify", "--database-url", database_url)
    _, damaged = run_in(database_url, asleep)
    before = cortex(*words)
    damage(database_url, damaged, "[]")
    after = cortex(*words)

    assert (before.code, before.out) == (0, "Checked 2 checkpoints: a worker could resume from each.\n")
    assert after.code == 1
    assert after.shown == (
        "Checked 2 checkpoints; no worker could resume from 1:\n"
        "JOB  AGENT  STEPS  KIND  PROBLEM\n"
        "<id>  sleeper  0  not_an_object  Checkpoint is not a JSON object.\n"
    )
    document = json.loads(cortex(*words, "--json").out)
    assert document["looked_at"] == 2
    assert [(one["job_id"], one["kind"]) for one in document["damaged"]] == [(damaged, "not_an_object")]


def test_migrate_only_tries(cortex: Cortex, folder: Path) -> None:
    url = f"sqlite:///{folder}/x.db"
    sleeping = 'ctx.memory.data["n"] = 1\n    await ctx.step("build", work, version)\n    await ctx.sleep(3600)'
    run_app(folder, url, cortex, sleeping)
    broken = '\n@release.state_migration(1)\ndef migrate(data):\n    raise ValueError("no way")\n'

    refused = cortex("checkpoints", "migrate", "app.py")
    sound = cortex("checkpoints", "migrate", "--dry-run", "app.py")
    with (folder / "app.py").open("a") as file:
        file.write(broken)
    failed = cortex("checkpoints", "migrate", "--dry-run", "app.py")

    assert (refused.code, refused.err) == (2, "Error: Jobs are migrated when they are resumed; --dry-run tries it.\n")
    assert (sound.code, sound.out) == (0, "Tried 1 checkpoint: a worker could resume from each.\n")
    assert failed.code == 1
    assert "migration_failed  ValueError: no way" in failed.shown


def test_a_checkpoint_is_printed_as_json_with_large_results_by_reference(cortex: Cortex, folder: Path) -> None:
    url = f"sqlite:///{folder}/x.db"
    job_id = run_app(folder, url, cortex, 'return await ctx.step("large", work, "x" * 5000)')

    result = cortex("checkpoints", "show", job_id, "--database-url", url)

    step = json.loads(result.out)["memory_context"]["working_data"]["$cortex"]["steps"]["large#1"]
    assert (result.code, result.err) == (0, "")
    assert len(step["blob"]) == 64
    assert "xxx" not in json.dumps(step)


def test_a_job_without_a_checkpoint_says_so(cortex: Cortex, database_url: str, run_in: RunIn) -> None:
    async def pending(plane: Plane) -> str:
        return str((await plane.submit("greet")).id)

    result = cortex("checkpoints", "show", run_in(database_url, pending), "--database-url", database_url)

    assert result.code == 2
    assert "has no checkpoint: nothing durable has happened in it." in result.err


def test_the_schema_is_printed_without_a_database(cortex: Cortex) -> None:
    result = cortex("schema", "checkpoint")

    assert (result.code, result.err) == (0, "")
    assert "execution_log" in json.loads(result.out)["properties"]


async def uncertain(plane: Plane) -> str:
    async def refund() -> None:
        raise TimeoutError("no answer")

    @plane.agent("shop", max_retries=0)
    async def shop(ctx: Context) -> object:
        return await ctx.tool("refund", refund)

    job = await shop.submit()
    await plane.run_worker(until_idle=True)
    return str(job.id)


def test_an_uncertain_call_is_shown_and_settled(database_url: str, run_in: RunIn, cortex: Cortex) -> None:
    job_id = str(run_in(database_url, uncertain))
    at = ("--database-url", database_url)

    shown = cortex("jobs", "show", job_id, *at).out
    neither = cortex("jobs", "settle", job_id, "refund", *at)
    both = cortex("jobs", "settle", job_id, "refund", "--applied", "1", "--not-applied", *at)
    broken = cortex("jobs", "settle", job_id, "refund", "--applied", "{", *at)
    huge = cortex("jobs", "settle", job_id, "refund", "--applied", '{"receipt": 18446744073709551616}', *at)
    unknown = cortex("jobs", "settle", job_id, "pay", "--not-applied", *at)
    settled = cortex("jobs", "settle", job_id, "refund", "--applied", '{"receipt": 7}', "--json", *at)

    assert "refund: TimeoutError: no answer" in shown
    assert f"cortex jobs settle {job_id} refund --applied RESULT" in " ".join(shown.split())
    assert {neither.code, both.code, broken.code, huge.code, unknown.code} == {2}
    assert "result.receipt is an integer beyond 64 bits" in " ".join(huge.err.split())
    assert "either --applied" in neither.err
    assert "takes JSON" in broken.err
    assert "Uncertain: refund" in unknown.err
    assert (settled.code, json.loads(settled.out)["retry_of"]) == (0, job_id)
