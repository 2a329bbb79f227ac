"""`cortex worker`: it greets, works, stops in order, and no handler outlives it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Cortex
from tests.cli.processes import started

APP = """
import asyncio, logging, sys, threading, time
from cortex_plane import Plane

plane = Plane()


def say(text):
    print(text, file=sys.stderr, flush=True)


@plane.agent("greet", queue="mail")
async def greet(ctx, name="world"):
    logging.getLogger("shop").info("greeting %s", name)
    return f"Hello, {name}!"


@plane.agent("patient")
async def patient(ctx):
    say("patient begins")
    while not ctx.stopping:
        await asyncio.sleep(0.01)
    return "done"


@plane.agent("stubborn")
async def stubborn(ctx):
    say("stubborn begins")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


@plane.agent("deaf")
def deaf(ctx):
    say("deaf begins")
    time.sleep(60)


@plane.agent("blocker")
async def blocker(ctx):
    say("blocker begins")
    time.sleep(60)
"""

GREETING = """\
Ready for jobs, up to 5 at a time. Ctrl-C stops in order; twice, at once.
  agents    blocker, deaf, greet, patient, stubborn
  queues    default, mail
  database  SQLite, cortex.db
"""


@pytest.fixture(autouse=True)
def app(folder: Path) -> None:
    (folder / "app.py").write_text(APP)


def submit(cortex: Cortex, agent: str, *words: str) -> str:
    result = cortex("jobs", "submit", agent, *words, "--app", "app.py", "--json")
    assert result.code == 0, result.err
    return str(json.loads(result.out)["id"])


def status(cortex: Cortex, job_id: str) -> str:
    return str(json.loads(cortex("jobs", "show", job_id, "--json").out)["job"]["status"])


def test_until_idle_runs_what_is_ready_and_ends(cortex: Cortex) -> None:
    ready, later = submit(cortex, "greet"), submit(cortex, "greet", "--delay", "1h")

    result = cortex("worker", "app.py", "--until-idle", "--concurrency", "5")

    assert (result.code, result.out) == (0, "")
    assert result.err.startswith(GREETING)
    assert result.err.endswith("Nothing is ready any more.\n")
    assert (status(cortex, ready), status(cortex, later)) == ("COMPLETED", "PENDING")


def test_only_the_queues_that_were_named_are_worked_on(cortex: Cortex) -> None:
    job_id = submit(cortex, "greet")

    result = cortex("worker", "app.py", "--until-idle", "--queue", "reports", "--queue", "news")

    assert "  queues    reports, news\n" in result.err
    assert status(cortex, job_id) == "PENDING"


INTERNAL_GREETING = """\
Ready for the plane's own work, up to 3 jobs at a time. Ctrl-C stops in order; twice, at once.
  database  SQLite, cortex.db
"""


def test_an_internal_worker_needs_no_app_and_does_the_planes_own_work_alone(cortex: Cortex) -> None:
    assert cortex("worker", "app.py", "--until-idle").code == 0
    added = cortex("webhooks", "add", "http://127.0.0.1:9/hook", "--allow-private", "--event", "job.completed")
    assert added.code == 0, added.err
    done = submit(cortex, "greet")
    assert cortex("worker", "app.py", "--queue", "mail", "--until-idle").code == 0
    left = submit(cortex, "greet")

    result = cortex("worker", "--internal", "--until-idle", "--concurrency", "3")

    assert result.code == 0, result.err
    assert result.err.startswith(INTERNAL_GREETING)
    assert (status(cortex, done), status(cortex, left)) == ("COMPLETED", "PENDING")


def test_an_internal_worker_takes_no_queues(cortex: Cortex, folder: Path) -> None:
    result = cortex("worker", "--internal", "--queue", "mail")

    message = "--internal works on no queue of yours. Leave out --queue, or leave out --internal."
    assert (result.code, result.err) == (2, f"Error: {message}\n")
    assert not (folder / "cortex.db").exists()


def test_a_worker_uses_the_database_that_was_named(cortex: Cortex, postgres_url: str) -> None:
    result = cortex("worker", "app.py", "--until-idle", "--database-url", postgres_url.replace("postgres@", "postgres:geheim@"))

    assert result.code == 0
    assert "  database  PostgreSQL, 127.0.0.1:" in result.err
    assert "geheim" not in result.err


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "from cortex_plane import Plane\nplane = Plane()\n",
            "This plane has no agents, so a worker would have nothing to do. Add one with @plane.agent(...).",
        ),
        (APP, "concurrency must be a whole number of 1 or more, not 0."),
    ],
)
def test_a_worker_that_could_do_nothing_does_not_start(cortex: Cortex, folder: Path, source: str, message: str) -> None:
    (folder / "app.py").write_text(source)

    result = cortex("worker", "app.py", "--concurrency", "0" if source is APP else "5")

    assert (result.code, result.err) == (2, f"Error: {message}\n")
    assert not (folder / "cortex.db").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_lets_running_jobs_finish(cortex: Cortex, folder: Path, number: signal.Signals) -> None:
    job_id = submit(cortex, "patient")

    with started("worker", "app.py", folder=folder) as worker:
        worker.wait_for("patient begins")
        worker.signal(number)
        code, log = worker.ended()

    assert code == 0, log
    assert "Stopping. Jobs that run may take up to 30 s more. Once more ends it at once.\n" in log
    assert log.endswith("Stopped in order.\n"), log
    assert status(cortex, job_id) == "COMPLETED"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_the_process_at_once(cortex: Cortex, folder: Path, number: signal.Signals, code: int) -> None:
    job_id = submit(cortex, "stubborn")

    with started("worker", "app.py", folder=folder) as worker:
        worker.wait_for("stubborn begins")
        worker.signal(number)
        worker.wait_for("Stopping.")
        _let_the_echo_pass()
        worker.signal(number)
        ended_with, _ = worker.ended()

    assert ended_with == code
    assert status(cortex, job_id) == "RUNNING"


def test_a_second_signal_is_heard_while_a_handler_blocks_the_loop(cortex: Cortex, folder: Path) -> None:
    submit(cortex, "blocker")

    with started("worker", "app.py", folder=folder) as worker:
        worker.wait_for("blocker begins")
        worker.signal(signal.SIGTERM)
        _let_the_echo_pass()
        worker.signal(signal.SIGTERM)

        assert worker.ended()[0] == 143


def test_a_signal_and_its_echo_are_one_wish(cortex: Cortex, folder: Path) -> None:
    """Programs such as `timeout` signal their child, and then its process group with the child in it."""
    job_id = submit(cortex, "patient")

    with started("worker", "app.py", folder=folder) as worker:
        worker.wait_for("patient begins")
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGINT)
        code, log = worker.ended()

    assert code == 0, log
    assert status(cortex, job_id) == "COMPLETED"


@pytest.mark.parametrize("agent", ["deaf", "stubborn"])
def test_a_handler_that_does_not_stop_ends_with_the_process(cortex: Cortex, folder: Path, agent: str) -> None:
    job_id = submit(cortex, agent)

    with started("worker", "app.py", folder=folder, CORTEX_GRACE_SECONDS="0") as worker:
        worker.wait_for(f"{agent} begins")
        worker.signal(signal.SIGTERM)
        code, log = worker.ended()

    assert code == 0, log
    assert log.endswith("A handler did not stop when asked. Another worker resumes its job; this process ends now.\n")
    assert status(cortex, job_id) == "RETRY"


THREADS = """
import atexit
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(1)


@plane.agent("to_thread")
async def to_thread(ctx):
    say("to_thread begins")
    await asyncio.to_thread(time.sleep, 60)


@plane.agent("pool")
async def pooled(ctx):
    say("pool begins")
    await asyncio.get_running_loop().run_in_executor(pool, time.sleep, 60)


@plane.agent("thread")
async def thread(ctx):
    threading.Thread(target=time.sleep, args=(60,)).start()
    say("thread begins")
    await asyncio.sleep(60)


@plane.agent("idle")
async def idle(ctx):
    atexit.register(say, "the program says goodbye")
    await asyncio.get_running_loop().run_in_executor(pool, say, "idle begins")
    await asyncio.sleep(60)
"""


@pytest.mark.parametrize("agent", ["to_thread", "pool", "thread"])
def test_threads_that_a_handler_has_made_itself_do_not_hold_up_the_end(cortex: Cortex, folder: Path, agent: str) -> None:
    (folder / "app.py").write_text(APP + THREADS)
    job_id = submit(cortex, agent)

    with started("worker", "app.py", folder=folder, CORTEX_GRACE_SECONDS="0") as worker:
        worker.wait_for(f"{agent} begins")
        worker.signal(signal.SIGTERM)
        code, log = worker.ended()

    assert code == 0, log
    assert "this process ends now" in log
    assert status(cortex, job_id) == "RETRY"


def test_a_pool_without_work_is_no_reason_to_end_at_once(cortex: Cortex, folder: Path) -> None:
    (folder / "app.py").write_text(APP + THREADS)
    submit(cortex, "idle")

    with started("worker", "app.py", folder=folder, CORTEX_GRACE_SECONDS="0") as worker:
        worker.wait_for("idle begins")
        worker.signal(signal.SIGTERM)
        code, log = worker.ended()

    assert code == 0, log
    assert log.endswith("Stopped in order.\nthe program says goodbye\n")


BROKEN = """
import threading, time
from cortex_plane import Plane, Unavailable


class BrokenPlane(Plane):
    async def run_worker(self, *args, **options):
        threading.Thread(target=time.sleep, args=(60,), name="cortex-handler_0").start()
        raise Unavailable("The database is gone.")


plane = BrokenPlane()
plane.command("ls", ["ls"])
"""


def test_a_worker_that_cannot_go_on_ends_although_a_handler_does_not(folder: Path) -> None:
    (folder / "app.py").write_text(BROKEN)

    with started("worker", "app.py", folder=folder) as worker:
        code, log = worker.ended()

    assert code == 5
    assert "Error: The database is gone.\nA handler did not stop when asked." in log


def test_the_log_is_json_where_that_is_asked_for(cortex: Cortex, folder: Path) -> None:
    submit(cortex, "greet", "name=Ada")

    with started("worker", "app.py", "--until-idle", folder=folder, CORTEX_LOG_JSON="true") as worker:
        code, log = worker.ended()

    assert code == 0, log
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["event"] for line in lines] == ["worker_started", "greeting Ada", "worker_stopped"]
    assert all(line["level"] == "info" and line["timestamp"].endswith("Z") for line in lines)


def test_the_log_is_for_eyes_otherwise_and_obeys_its_level(cortex: Cortex, folder: Path) -> None:
    submit(cortex, "greet", "name=Ada")

    with started("worker", "app.py", "--until-idle", folder=folder) as worker:
        _, pretty = worker.ended()
    with started("worker", "app.py", "--until-idle", folder=folder, CORTEX_LOG_LEVEL="error") as worker:
        _, quiet = worker.ended()

    assert "[info     ] worker_started" in pretty
    assert "[info     ] greeting Ada" in pretty
    assert "worker_started" not in quiet


def _let_the_echo_pass() -> None:
    """The echo of a signal is told from a second one by time alone."""
    import time

    from cortex_plane.cli.stopping import ECHO_SECONDS

    time.sleep(ECHO_SECONDS * 1.5)


def test_a_worker_tells_how_it_goes_while_it_works_and_stops_in_order_all_the_same(cortex: Cortex, folder: Path) -> None:
    submit(cortex, "patient")

    with started("worker", "app.py", "--metrics-port", "0", folder=folder) as worker:
        worker.wait_for("  metrics   http://")
        address = worker.lines[-1].split()[-1]
        worker.wait_for("patient begins")
        figures, ready = httpx.get(address, timeout=10), httpx.get(address.replace("metrics", "readyz"), timeout=10)
        worker.signal(signal.SIGTERM)
        code, log = worker.ended()

    assert 'cortex_loop_last_good_seconds{loop="timers"}' in figures.text
    assert ready.json()["ready"] is True
    assert code == 0, log
    assert log.endswith("Stopped in order.\n"), log
