"""Small ways in that are closed: programs and their environment, cookies, sign-in from other sites, addresses, tokens, files."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import jwt
import pytest
import structlog
from argon2 import PasswordHasher
from httpx import ASGITransport, AsyncClient

from cortex_plane import Context, Plane
from cortex_plane.cli.logs import configure_logs
from cortex_plane.clock import SECOND, Instant
from cortex_plane.dashboard.app import create_dashboard
from cortex_plane.errors import InvalidInput, JobFailed, UnknownAgent
from cortex_plane.grants.execution_client import LONGEST_SECONDS, subject_of
from cortex_plane.http.app import create_app
from cortex_plane.http_client import is_public
from cortex_plane.jobs.fields import Submission
from cortex_plane.people.passwords import Argon2Passwords
from cortex_plane.settings import Settings
from cortex_plane.testing import TestPlane
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery"
DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Argon2Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    monkeypatch.setattr("cortex_plane.people.keys.passwords", lambda: quick)


# -- programs ------------------------------------------------------------------------------------


async def _output(plane: TestPlane, argv: list[str], arguments: dict[str, Any], **options: Any) -> str:
    job = await plane.command("program", argv, max_retries=0, **options).submit(**arguments)
    await plane.work()
    await job.result()
    (run,) = await job.runs()
    return Path(str(run.log_path)).read_text()


ECHO = [sys.executable, "-c", "import sys; print(sys.argv[1:])"]


@pytest.mark.parametrize("word", ["-f/etc/passwd", "--file=/etc/passwd", "-"])
async def test_a_value_cannot_become_an_option_of_a_program(plane: TestPlane, word: str) -> None:
    with pytest.raises(JobFailed, match="take for an option"):
        await _output(plane, [*ECHO, "{when}"], {"when": word})


async def test_options_of_the_developer_and_words_after_two_dashes_are_let_through(plane: TestPlane) -> None:
    assert "['--date=-1', 'x']" in await _output(plane, [*ECHO, "--date={when}", "{other}"], {"when": "-1", "other": "x"})


async def test_words_after_two_dashes_are_no_options(plane: TestPlane) -> None:
    assert "['--', '-f']" in await _output(plane, [*ECHO, "--", "{when}"], {"when": "-f"})


async def test_options_can_be_allowed(plane: TestPlane) -> None:
    assert "['-f']" in await _output(plane, [*ECHO, "{when}"], {"when": "-f"}, allow_options=True)


async def test_a_program_sees_of_the_environment_only_what_is_on_a_list(
    plane: TestPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CORTEX_DATABASE_URL", "CORTEX_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "LC_ALL"):
        monkeypatch.setenv(name, "C.UTF-8" if name == "LC_ALL" else "hush")
    shown = "import os; print(sorted(os.environ))"

    names = await _output(plane, [sys.executable, "-c", shown], {}, environment=["AWS_PROFILE"])

    assert "hush" not in names
    assert all(name in names for name in ("PATH", "AWS_PROFILE", "LC_ALL", "CORTEX_JOB_ID", "CORTEX_PAYLOAD_FILE"))
    assert not [name for name in ("CORTEX_DATABASE_URL", "CORTEX_API_KEY", "AWS_SECRET_ACCESS_KEY") if name in names]


def test_a_wrong_list_of_variables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="environment"):
        Plane(settings=Settings(data_dir=str(tmp_path))).command("x", ["true"], environment="PATH")


# -- files ---------------------------------------------------------------------------------------


async def test_files_of_the_database_and_of_runs_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        plane = Plane(settings=Settings(database_url=f"sqlite:///{tmp_path}/new.db", data_dir=str(tmp_path / "files")))
        program = plane.command("program", [sys.executable, "-c", "print(1)"])

        @plane.agent("keep")
        async def keep(ctx: Context) -> None:
            await ctx.artifact(b"1", name="a.txt")

        async with plane:
            await program.submit()
            await plane.submit("keep")
            await plane.run_worker(until_idle=True)
            found = [*tmp_path.glob("new.db*"), *(tmp_path / "files").rglob("*"), tmp_path / "files"]
            files = {path.name for path in found}
            open_to_others = [path for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077 and path.parent == tmp_path]
            logs = [path for path in found if path.name in ("payload.json", "output.log")]
    finally:
        os.umask(before)

    assert {"new.db", "new.db-wal", "output.log", "payload.json", "a.txt"} <= files
    assert open_to_others == []
    assert len(logs) == 2
    assert not [path for path in logs if stat.S_IMODE(path.stat().st_mode) & 0o077]


# -- cookies and pages ---------------------------------------------------------------------------


async def _ada(api: Api) -> None:
    await api.plane.access.add_user("ada")
    await api.plane.access.set_password("ada", PASSWORD)
    await api.plane.access.give_role("ada", "viewer")


async def test_where_cookies_are_secure_no_other_is_accepted(api: Api) -> None:
    await _ada(api)
    token = (await api.plane.access.sign_in("ada", PASSWORD)).token
    for secure, name, status in (
        (True, "__Host-cortex_session", 200),
        (True, "cortex_session", 401),
        (False, "cortex_session", 200),
        (False, "__Host-cortex_session", 401),
    ):
        app = create_app(api.plane, replace(api.plane.settings, secure_cookies=secure))
        async with AsyncClient(transport=ASGITransport(app), base_url="http://localhost/api/v1") as client:
            answer = await client.get("/me", headers={"Cookie": f"{name}={token}"})
        assert answer.status_code == status, (secure, name)


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Origin": "http://localhost"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "https://evil.example.com"}, False),
        ({"Origin": "null"}, False),
    ],
)
async def test_another_site_cannot_sign_its_visitors_in(api: Api, headers: dict[str, str], is_let_in: bool) -> None:
    await _ada(api)
    app = create_dashboard(api.plane)
    async with AsyncClient(transport=ASGITransport(app), base_url="http://localhost") as client:
        form = await client.post("/sign-in", data={"name": "ada", "password": PASSWORD}, headers=headers)
        program = await client.post("/api/v1/session", json={"name": "ada", "password": PASSWORD}, headers=headers)

    assert [form.status_code, program.status_code] == ([303, 200] if is_let_in else [403, 403])
    assert ("set-cookie" in form.headers) is is_let_in


# -- addresses and tokens ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "::7f00:1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "64:ff9b:1::808:808",
        "fec0::1",
        "fe80::1",
    ],
)
def test_addresses_that_lead_to_ourselves_or_neighbours_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_public_addresses_stay_public() -> None:
    assert all(map(is_public, ("2606:4700::1111", "64:ff9b::808:808", "8.8.8.8", "::ffff:8.8.8.8")))


def test_a_token_of_a_service_is_good_for_an_hour_at_most() -> None:
    now = Instant(1_700_000_000 * SECOND)
    secret = "what-services-sign-their-tokens-with"

    def subject(seconds: float) -> str | None:
        token = jwt.encode({"sub": "s", "aud": "a", "exp": now // SECOND + seconds}, secret, "HS256")
        return subject_of(token, [secret], "a", now)

    assert subject(60) == subject(LONGEST_SECONDS) == "s"
    assert subject(LONGEST_SECONDS + 1) is subject(10**9) is subject(-1) is None


# -- the plane's own agents ----------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["cortex.notify", "cortex.webhook", "cortex.anything"])
async def test_nobody_submits_jobs_of_the_planes_own_agents(api: Api, agent: str) -> None:
    admin = await api.client("admin", tenant=None)
    await api.plane.submit("echo")

    answer = await admin.post("/jobs", json={"agent": agent, "payload": {}})
    template = await admin.put("/templates/t", json={"agent": agent})

    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/agent-not-found")
    assert template.status_code == 404
    with pytest.raises(UnknownAgent):
        await api.plane.submit(agent)
    with pytest.raises(UnknownAgent):
        await api.plane.groups.submit([Submission(agent)])


# -- what a terminal is shown --------------------------------------------------------------------


def test_control_characters_are_shown_and_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    written = StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    configure_logs(Settings(log_level="info"))
    try:
        structlog.get_logger().info("a\x1b[2Jb\r\n2026 [info] forged", name="\x9b31m\u202eevil\x07", **{"k\x1b": 1})
        try:
            int("boom\x1b]0;title\x07")
        except ValueError:
            structlog.get_logger().exception("failed")
    finally:
        structlog.reset_defaults()

    text = written.getvalue()
    assert not [character for character in "\x1b\x9b\x07\r\u202e" if character in text]
    assert "a\\x1b[2Jb\\r\\n2026 [info] forged" in text
    assert "\nValueError: invalid literal" in text


# -- what is deployed ----------------------------------------------------------------------------


def test_images_are_pinned_and_manifests_say_how_they_are_reached() -> None:
    docker, compose = (DEPLOY / "Dockerfile").read_text(), (DEPLOY / "compose.yaml").read_text()
    settings = (DEPLOY / "kubernetes" / "settings.yaml").read_text()

    assert "ARG PYTHON=python:3.13-slim-bookworm@sha256:" in docker
    assert "image: postgres:18@sha256:" in compose
    for name in ("CORTEX_SECURE_COOKIES", "CORTEX_ALLOWED_HOSTS", "CORTEX_PUBLIC_URL", "CORTEX_TRUSTED_PROXIES"):
        assert name in settings
        assert name in compose
    assert 'CORTEX_SECURE_COOKIES: "true"' in settings
