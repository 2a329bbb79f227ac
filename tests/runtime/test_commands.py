"""Programs as agents: what they are given, what is kept of them, how their exit code decides."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Agent, Context, JobFailed, JobStatus, RunStatus
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.model import Run
from cortex_plane.testing import TestPlane
from tests.runtime.helpers import PATIENCE_SECONDS, text_of, working

pytestmark = pytest.mark.anyio


def program(plane: TestPlane, code: str, *words: str, name: str = "program", **options: Any) -> Agent[..., dict[str, Any]]:
    return plane.command(name, [sys.executable, "-c", code, *words], **{"max_retries": 0, **options})


async def only_run(plane: TestPlane, agent: Agent[..., Any], **arguments: Any) -> Run:
    job = await agent.submit(**arguments)
    await plane.work()
    (run,) = await job.runs()
    return run


def size_of(path: str | None) -> int:
    return Path(str(path)).stat().st_size


async def test_a_program_that_ends_well_completes_its_job(plane: TestPlane) -> None:
    job = await program(plane, "print('hello')").submit()
    await plane.work()

    (run,) = await job.runs()
    assert (run.status, run.exit_code, run.artifacts) == (RunStatus.COMPLETED, 0, [])
    assert text_of(run.log_path) == "hello\n"
    assert await job.result() == {"exit_code": 0, "log_path": run.log_path, "artifacts": []}


@pytest.mark.parametrize("exit_code", [3, 255])
async def test_an_exit_code_other_than_zero_fails_the_job(plane: TestPlane, exit_code: int) -> None:
    job = await program(plane, f"import sys; print('no luck'); sys.exit({exit_code})").submit()
    await plane.work()

    (run,) = await job.runs()
    assert (run.status, run.exit_code) == (RunStatus.FAILED, exit_code)
    assert text_of(run.log_path) == "no luck\n"
    with pytest.raises(JobFailed, match=rf"ended with exit code {exit_code}\. Its output ends: no luck"):
        await job.result()


async def test_a_program_that_a_signal_ended_says_which(plane: TestPlane) -> None:
    run = await only_run(plane, program(plane, "import os; os.kill(os.getpid(), 9)"))

    assert (run.status, run.exit_code) == (RunStatus.FAILED, 128 + 9)


async def test_standard_output_and_error_go_to_one_log(plane: TestPlane) -> None:
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr, flush=True); print('out again')"
    run = await only_run(plane, program(plane, code))

    assert text_of(run.log_path) == "out\nerr\nout again\n"


async def test_what_a_program_leaves_in_its_folder_is_kept(plane: TestPlane) -> None:
    code = """
import os, pathlib
folder = pathlib.Path(os.environ["CORTEX_ARTIFACTS"])
(folder / "report.txt").write_text("fine")
(folder / "deep").mkdir()
(folder / "deep" / "größe.csv").write_text("1")
"""
    run = await only_run(plane, program(plane, code))

    assert [Path(path).name for path in run.artifacts] == ["größe.csv", "report.txt"]
    assert [text_of(path) for path in run.artifacts] == ["1", "fine"]


async def test_a_failed_program_leaves_its_artifacts_too(plane: TestPlane) -> None:
    code = "import os, pathlib; (pathlib.Path(os.environ['CORTEX_ARTIFACTS']) / 'core').write_text('x'); os._exit(4)"
    run = await only_run(plane, program(plane, code))

    assert (run.exit_code, [Path(path).name for path in run.artifacts]) == (4, ["core"])


async def test_a_program_is_told_its_job_and_payload(plane: TestPlane) -> None:
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    job = await program(plane, code).submit(text="straße", numbers=[1, 2.5], nothing=None)
    await plane.work()

    (run,) = await job.runs()
    told = json.loads(text_of(run.log_path))
    assert (told["CORTEX_JOB_ID"], told["CORTEX_RUN_ID"], told["CORTEX_ATTEMPT"]) == (job.id, run.id, "1")
    assert json.loads(told["CORTEX_PAYLOAD"]) == {"text": "straße", "numbers": [1, 2.5], "nothing": None}


async def test_a_payload_too_large_for_a_variable_is_in_a_file(plane: TestPlane) -> None:
    code = (
        "import os, json; print('CORTEX_PAYLOAD' in os.environ, len(json.load(open(os.environ['CORTEX_PAYLOAD_FILE']))['text']))"
    )
    job = await program(plane, code).submit(text="x" * 200_000)
    await plane.work()

    (run,) = await job.runs()
    assert text_of(run.log_path) == "False 200000\n"


async def test_a_word_that_is_too_long_for_the_system_fails_the_job_for_good(plane: TestPlane) -> None:
    job = await program(plane, "print('never')", "{text}", max_retries=3).submit(text="x" * 1_000_000)
    await plane.work()

    ended = await job.job()
    assert (ended.status, ended.retry_count) == (JobStatus.FAILED, 0)
    assert "payload" in str(ended.error_message)


async def test_placeholders_are_filled_and_no_shell_reads_them(plane: TestPlane) -> None:
    code = "import sys; print(sys.argv[1:])"
    agent = program(plane, code, "--name={name}", "{count}", "{{literal}}", "{path}")
    run = await only_run(plane, agent, name="a b; rm -rf $HOME", count=3, path="*")

    assert text_of(run.log_path).strip() == str(["--name=a b; rm -rf $HOME", "3", "{literal}", "*"])


async def test_a_word_that_cannot_be_filled_fails_the_job_for_good(plane: TestPlane) -> None:
    words = {
        "{missing}": "needs the argument 'missing'",
        "{0}": "cannot be filled in|needs the argument",
        "{}": "cannot be filled in|needs the argument",
        "{broken": "cannot be filled in",
        "{text.nothing}": "cannot be filled in",
    }
    jobs = {
        word: await program(plane, "print('never')", word, name=f"program {word}", max_retries=3).submit(text="here")
        for word in words
    }
    await plane.work()

    for word, message in words.items():
        ended = await jobs[word].job()
        assert (word, ended.status, ended.retry_count) == (word, JobStatus.FAILED, 0)
        with pytest.raises(JobFailed, match=message):
            await jobs[word].result()


async def test_a_program_that_does_not_exist_fails_with_its_name(plane: TestPlane) -> None:
    job = await plane.command("ghost", ["/no/such/program"], max_retries=0).submit()
    await plane.work()

    (run,) = await job.runs()
    assert run.exit_code == 127
    with pytest.raises(JobFailed, match="There is no program '/no/such/program'"):
        await job.result()


async def test_a_file_that_is_no_program_fails_with_its_name(plane: TestPlane, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    job = await plane.command("text", [str(tmp_path / "text")], max_retries=0).submit()
    await plane.work()

    (run,) = await job.runs()
    assert run.exit_code == 126
    with pytest.raises(JobFailed, match="cannot be run"):
        await job.result()


async def test_a_command_line_that_is_not_a_list_of_words_is_refused(plane: TestPlane) -> None:
    wrong: list[Any] = ["echo hello", [], ["echo", 5], [None]]
    for argv in wrong:
        with pytest.raises(InvalidInput, match="argv must be a list of words") as refusal:
            plane.command("bad", argv)
        assert refusal.value.field == "argv"


async def test_output_that_is_no_text_does_no_harm(plane: TestPlane) -> None:
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 40); sys.exit(1)"
    job = await program(plane, code).submit()
    await plane.work()

    (run,) = await job.runs()
    assert size_of(run.log_path) == 256 * 40
    with pytest.raises(JobFailed, match="exit code 1"):
        await job.result()


@pytest.mark.parametrize("exit_code", [0, 1])
async def test_a_file_name_that_is_no_text_neither_loses_the_job_nor_stops_the_worker(plane: TestPlane, exit_code: int) -> None:
    code = f"import os, sys; open(os.fsencode(os.environ['CORTEX_ARTIFACTS']) + b'/\\xff', 'w').close(); sys.exit({exit_code})"
    agent = program(plane, code)

    @plane.agent("next")
    async def next_one(ctx: Context) -> str:
        return "fine"

    job = await agent.submit()
    async with working(plane):
        try:
            await job.result(timeout=PATIENCE_SECONDS)
        except JobFailed:
            pass
        after = await (await next_one.submit()).result(timeout=PATIENCE_SECONDS)

    assert after == "fine"


async def test_each_attempt_has_a_log_of_its_own(plane: TestPlane) -> None:
    job = await program(plane, "import os, sys; print(os.environ['CORTEX_ATTEMPT']); sys.exit(1)", max_retries=1).submit()
    await plane.work()
    await plane.clock.advance(minutes=5)
    await plane.work()

    logs = [text_of(run.log_path) for run in await job.runs()]
    assert logs == ["1\n", "2\n"]
