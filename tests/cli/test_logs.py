"""What of the log is shown by commands that answer by themselves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
import structlog

from cortex_plane import Context, Settings
from cortex_plane.cli.logs import adopt_standard_logging, configure_logs
from cortex_plane.jobs.model import DEFAULT_TENANT_ID
from cortex_plane.testing import throwaway_plane


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("level", "heard"), [("info", ["error"]), ("warning", ["error"]), ("debug", ["info", "warning", "error"])]
)
def test_a_quiet_command_logs_errors_only_unless_it_is_debugged(
    capsys: pytest.CaptureFixture[str], level: str, heard: list[str]
) -> None:
    configure_logs(Settings(log_level=level), quiet=True)

    log = structlog.get_logger()
    log.info("info")
    log.warning("warning")
    log.error("error")

    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[-1] for line in lines] == heard


def test_exceptions_are_told_without_the_values_of_variables(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(Settings())

    try:
        _log_in("".join(["ge", "heim"]))
    except ValueError:
        structlog.get_logger().exception("failed")

    err = capsys.readouterr().err
    assert "ValueError: wrong" in err
    assert "geheim" not in err


def test_json_holds_exceptions_and_whatever_has_no_json_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    import orjson

    configure_logs(Settings(log_json=True))

    try:
        _log_in("geheim")
    except ValueError:
        structlog.get_logger().exception("failed", what={1, 2}, key={3: 4})

    line = orjson.loads(capsys.readouterr().err)
    assert line["event"] == "failed"
    assert line["what"] == "{1, 2}"
    assert line["exception"].endswith("ValueError: wrong")


@pytest.mark.parametrize("as_json", [True, False])
def test_no_secret_gets_into_a_line_not_even_in_an_exception(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    key = "ctx_" + "a1B2" * 12
    settings = Settings(
        log_json=as_json,
        database_url="postgresql://ada:hunter2@db/x",
        internal_api_token="opensesame",
        metrics_token="let-me-see",
    )
    configure_logs(settings)

    log = structlog.get_logger()
    log.info(f"got {key}", password="geheim", headers={"authorization": "Bearer abc"}, url="/cortex_apr_1_xyz_1/approve")
    try:
        int("hunter2 and opensesame and let-me-see")
    except ValueError:
        log.exception("failed", database=settings.database_url)

    err = capsys.readouterr().err
    assert "[redacted]" in err
    assert not [word for word in (key, "geheim", "abc", "xyz", "hunter2", "opensesame", "let-me-see") if word in err]


def test_what_standard_logging_says_is_redacted_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.Logger("root")
    monkeypatch.setattr(logging, "getLogger", lambda name=None: root)
    adopt_standard_logging(Settings(internal_api_token="opensesame"))

    root.error("it is opensesame")

    assert "it is [redacted]" in capsys.readouterr().err


@pytest.mark.anyio
async def test_every_line_of_a_run_says_in_which_run_it_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    import orjson

    configure_logs(Settings(log_json=True))
    said = structlog.get_logger()
    async with throwaway_plane() as plane:

        @plane.agent("async")
        async def in_the_loop(ctx: Context) -> None:
            said.info("from the loop")
            await asyncio.create_task(later())

        @plane.agent("thread")
        def in_a_thread(ctx: Context) -> None:
            said.info("from a thread")

        async def later() -> None:
            said.info("from a task")

        jobs = [await plane.submit("async"), await plane.submit("thread")]
        await plane.work()
        runs = {job.id: (await plane.jobs.runs(job.id))[0].id for job in jobs}

    lines = [orjson.loads(line) for line in capsys.readouterr().err.splitlines()]
    ours = {line["event"]: (line["job_id"], line["run_id"], line["tenant_id"]) for line in lines if "from" in line["event"]}
    assert ours["from the loop"] == ours["from a task"] == (jobs[0].id, runs[jobs[0].id], DEFAULT_TENANT_ID)
    assert ours["from a thread"] == (jobs[1].id, runs[jobs[1].id], DEFAULT_TENANT_ID)
    assert not [line for line in lines if line["event"].startswith("worker_") and "run_id" in line]


def _log_in(password: str) -> None:
    raise ValueError("wrong")
