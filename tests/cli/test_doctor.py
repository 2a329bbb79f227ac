"""`cortex doctor`: what there is, where each setting comes from, and what is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import Plane
from cortex_plane.jobs.model import WorkerId
from cortex_plane.storage.migrations import Migration, migrations_in
from cortex_plane.storage.postgres.schema import FOLDER, problems_of
from cortex_plane.worker.model import NewWorker
from tests.cli.conftest import Cortex, Result

RunIn = Callable[..., Any]

NEWCOMER = """\
Program
  cortex-plane  <version>
  python  <version> on <system>
  libraries  <versions>
  sqlite  ✓ <version>, its write-ahead log is safe

Database
  place  ✓ SQLite, cortex.db (created by the first worker)

Settings
  NAME  VALUE  FROM
  database_url  sqlite:///cortex.db  default
  server  default
  server_tenant  default
  api_key  default
  app  default
  concurrency  20  default
  internal_concurrency  10  default
  lease_seconds  15.0  default
  grace_seconds  30.0  default
  event_loop_timeout  120.0  default
  payload_limit_bytes  1048576  default
  result_limit_bytes  1048576  default
  result_max_bytes  67108864  default
  checkpoint_warn_bytes  524288  default
  checkpoint_limit_bytes  1048576  default
  internal_api_url  default
  internal_api_token  default
  internal_api_previous_token  default
  internal_api_requests_per_second  100  default
  internal_jwt_secret  default
  internal_jwt_previous_secret  default
  internal_jwt_audience  cortex-execution  default
  data_dir  .cortex  default
  http_host  127.0.0.1  default
  http_port  8700  default
  allowed_hosts  default
  secure_cookies  False  default
  http_body_limit_bytes  4194304  default
  http_header_timeout_seconds  10.0  default
  http_body_timeout_seconds  60.0  default
  http_streams  500  default
  http_streams_per_caller  25  default
  trusted_proxies  default
  seal_export  default
  seal_export_authorization  default
  stream_seconds  300.0  default
  approval_max_ttl_seconds  31536000.0  default
  metrics_token  default
  log_level  info  default
  log_json  False  default
  public_url  http://localhost:8700  default
  telegram_bot_token  default
  telegram_webhook_secret  default
  telegram_url  https://api.telegram.org  default
  discord_bot_token  default
  discord_public_key  default
  discord_url  https://discord.com/api/v10  default
  slack_bot_token  default
  slack_signing_secret  default
  slack_url  https://slack.com/api  default
  smtp_url  default

No problems were found.
"""

POSTGRES = """\
Database
  place  ✓ PostgreSQL, 127.0.0.1:<port>/<name>
  server  PostgreSQL <version>
  wake-ups  ✓ notifications arrive
  schema  ✓ version 1, up to date

Work
  workers  none is running
  queue  default: 1 later, 1 ready
"""


def shown(result: Result) -> str:
    text = re.sub(r"libraries .*(\n {12,}.*)*", "libraries  <versions>", result.shown)
    text = re.sub(r"(?m)^(  python  )\S+ on .*", r"\1<version> on <system>", text)
    return re.sub(r"(cortex-plane  |✓ |server  PostgreSQL )\d[\w.]*", r"\1<version>", text)


def test_a_newcomer_is_told_that_all_is_well_and_nothing_is_made(cortex: Cortex, folder: Path) -> None:
    result = cortex("doctor")

    assert (result.code, result.err) == (0, "")
    assert shown(result) == NEWCOMER
    assert list(folder.iterdir()) == []


def test_a_postgres_server_is_examined(cortex: Cortex, postgres_url: str, run_in: RunIn) -> None:
    async def fill(plane: Plane) -> None:
        await plane.submit("greet")
        await plane.submit("greet", {}, delay=3600)

    run_in(postgres_url, fill)
    result = cortex("doctor", "--database-url", postgres_url)

    assert result.code == 0
    database = shown(result).partition("\nDatabase")[2].partition("\nSettings")[0]
    assert re.sub(r":\d+/\w+", ":<port>/<name>", f"Database{database}") == POSTGRES
    assert (
        result.out.splitlines()[-2:]
        == """\
Problem 4: Jobs are ready in the queue "default" (1), but no worker works on it.
           → cortex worker APP --queue default""".splitlines()
    )


def test_what_endangers_or_slows_a_server_is_named(cortex: Cortex, postgres_url: str) -> None:
    """The server of the tests is set up for speed: exactly so must nobody's own be."""
    result = cortex("doctor", "--json", "--database-url", postgres_url)

    problems = [problem["what"].partition(":")[0] for problem in json.loads(result.out)["problems"]]
    assert problems == ["fsync is off on the server", "full_page_writes is off", "synchronous_commit is off"]


HEALTHY = {
    "fsync": True,
    "full_page_writes": True,
    "durable": True,
    "autovacuum": True,
    "isolation": "read committed",
    "shared_buffers": 128 * 1024**2,
    "statement_timeout": 0.0,
    "max_connections": 100,
    "connections": 10,
    "held": None,
    "slots": None,
    "prepared": None,
}


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ({"autovacuum": False}, "Autovacuum is off"),
        ({"isolation": "repeatable read"}, "default_transaction_isolation"),
        ({"shared_buffers": 16 * 1024**2}, "shared_buffers is only 16 MB"),
        ({"statement_timeout": 5.0}, "statement_timeout is 5 s"),
        ({"connections": 95}, "95 of 100 connections"),
        ({"held": "17 of user ada on database cortex, open for 700 s"}, "A transaction stays open"),
        ({"slots": "replica_1"}, "replication slot"),
        ({"prepared": "gid"}, "prepared transaction"),
    ],
)
def test_each_condition_of_a_server_is_named_alone(condition: dict[str, Any], named: str) -> None:
    [(what, do)] = problems_of({**HEALTHY, **condition})

    assert named in what
    assert do


def test_a_healthy_server_has_no_problems() -> None:
    assert list(problems_of(HEALTHY)) == []


def test_workers_are_listed_while_they_live(cortex: Cortex, folder: Path, run_in: RunIn) -> None:
    """A worker that registered and never left looks alive until its lease has run out."""
    url = f"sqlite:///{folder}/x.db"

    async def register(plane: Plane) -> None:
        store = plane.store
        for number, lease_seconds in ((1, 60.0), (2, 0.001)):
            worker_id = WorkerId(f"0199a8c2-0000-7000-8000-00000000000{number}")
            await store.workers.register(NewWorker(worker_id, f"host:{number}", ("default",), ("greet",), 5, lease_seconds))

    run_in(url, register)
    result = cortex("doctor", "--database-url", url)

    assert "  worker  host:1: greet; queues default; seen <ago>\n" in result.shown
    assert "  worker  host:2: greet; queues default; silent since <ago>\n" in result.shown


def test_each_setting_is_shown_with_its_origin(cortex: Cortex, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cortex.toml").write_text('concurrency = 5\ndata_dir = "out"\n')
    monkeypatch.setenv("CORTEX_CONCURRENCY", "7")

    report = json.loads(cortex("doctor", "--json", "--database-url", "sqlite:///x.db").out)

    origins = {setting["name"]: (setting["value"], setting["from"]) for setting in report["settings"]}
    assert origins["concurrency"] == (7, "CORTEX_CONCURRENCY")
    assert origins["data_dir"] == ("out", "cortex.toml")
    assert origins["database_url"] == ("sqlite:///x.db", "--database-url")
    assert origins["log_level"] == ("info", "default")


SECRET_VALUES = {
    "CORTEX_TELEGRAM_BOT_TOKEN": "123456:geheim",
    "CORTEX_TELEGRAM_WEBHOOK_SECRET": "geheim",
    "CORTEX_DISCORD_BOT_TOKEN": "geheim",
    "CORTEX_SLACK_BOT_TOKEN": "xoxb-geheim",
    "CORTEX_SLACK_SIGNING_SECRET": "geheim",
    "CORTEX_SMTP_URL": "smtp://geheim:geheim@mail.example.com?from=geheim@example.com",
}


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_secrets_are_only_said_to_be_set(cortex: Cortex, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]) -> None:
    for name, value in SECRET_VALUES.items():
        monkeypatch.setenv(name, value)

    result = cortex("doctor", *form)

    assert result.code == 0
    assert "geheim" not in result.out + result.err
    assert result.out.count("(set)") == len(SECRET_VALUES)


@pytest.mark.parametrize("name", SECRET_VALUES)
def test_a_secret_that_is_wrong_is_not_repeated(cortex: Cortex, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "geheim geheim")

    result = cortex("doctor")

    assert result.code == 2
    assert name.removeprefix("CORTEX_").lower() in result.out
    assert "geheim" not in result.out + result.err


def test_of_a_secret_it_is_only_said_that_there_is_one(cortex: Cortex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_INTERNAL_API_TOKEN", "a-secret-of-the-service")
    monkeypatch.setenv("CORTEX_INTERNAL_JWT_PREVIOUS_SECRET", "a-secret-that-services-sign-their-tokens-with")

    result = cortex("doctor")

    assert "a-secret" not in result.out
    assert result.out.count("(set)") == 2


def test_wrong_settings_are_a_problem_and_not_a_crash(cortex: Cortex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_CONCURENCY", "7")

    result = cortex("doctor")

    assert (result.code, result.err) == (2, "")
    assert 'CORTEX_CONCURENCY is not a setting. Did you mean "CORTEX_CONCURRENCY"?' in result.out


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sqlite:////no/such/folder/x.db", "/no/such/folder/x.db does not exist and cannot be created."),
        ("sqlite:///notes.txt", "notes.txt is not a SQLite database, or is damaged."),
        ("postgresql://ada:geheim@127.0.0.1:1/db", "PostgreSQL, 127.0.0.1:1/db does not answer"),
        ("mysql://ada:geheim@host/db", "A database address begins with sqlite:// or postgresql://, not 'mysql'."),
    ],
)
def test_a_database_that_cannot_be_used_is_exit_code_5(cortex: Cortex, folder: Path, url: str, problem: str) -> None:
    (folder / "notes.txt").write_text("This is not a database. " * 100)

    result = cortex("doctor", "--json", "--database-url", url)

    assert result.code == 5
    report = json.loads(result.out)
    assert report["database"]["usable"] is False
    assert report["problems"][0]["what"].startswith(problem)
    assert "geheim" not in result.out + result.err


def test_an_outdated_schema_cannot_be_used_on_postgres(
    cortex: Cortex, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that the database has not had."""
    later = [*migrations_in(FOLDER), Migration(2, "colour", "select 1;"), Migration(3, "size", "select 1;")]
    monkeypatch.setattr("cortex_plane.storage.postgres.schema.migrations_in", lambda _: later)

    result = cortex("doctor", "--database-url", postgres_url)

    assert result.code == 5
    assert (
        "Problem 4: The schema is older than this program: 0002 colour, 0003 size missing.\n           → cortex db upgrade\n"
        in result.out
    )
    assert cortex("jobs", "list", "--database-url", postgres_url).code == 5


READ = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("begin")
connection.execute("select count(*) from job").get
print("reading", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux tells who holds locks")
def test_the_reader_that_keeps_a_long_log_from_shrinking_is_named(
    cortex: Cortex, tmp_path: Path, run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/long.db"

    async def submit(plane: Plane) -> None:
        await plane.submit("greet")

    run_in(url, submit)
    monkeypatch.setattr("cortex_plane.storage.sqlite.database.LONG_LOG_BYTES", 0)
    command = [sys.executable, "-c", READ, str(tmp_path / "long.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        run_in(url, submit)
        told = cortex("doctor", "--database-url", url).out
        assert reader.stdin is not None
        reader.stdin.close()

    assert f"It cannot shrink while process {reader.pid} (" in told
    assert "End the transaction of that program, or stop it." in told
