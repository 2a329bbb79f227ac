"""`pip install cortex-plane` alone is enough for the engine, both stores, the client and the command."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

from cortex_plane import Plane, Settings
from cortex_plane.extras import MODULES
from tests.cli.servers import serving

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
ANOTHER_ENVIRONMENT = os.environ.get("CORTEX_TEST_CORE_PYTHON")
"""The Python of an environment into which only `cortex-plane` was installed: see tests/versions.py."""
MOST_PACKAGES = 24

NEED_EXTRAS = re.compile(
    r"""cortex_plane\.(?:
      dashboard\b | http\b | otel$ | integrations\.langgraph\b | metrics\.prometheus$ | people\.passwords$
    | testing\.pytest_plugin$
    | \w+\.(?:http|pages)\w*$
    )""",
    re.VERBOSE,
)

AGENTS = """
from datetime import date
from cortex_plane import Context, Plane

plane = Plane()

async def shout(name: str) -> str:
    return name.upper()

@plane.agent("greet")
async def greet(ctx: Context, name: str, day: date) -> str:
    return await ctx.step("shout", shout, name) + day.isoformat()
"""

IMPORT_EVERYTHING = """
import importlib, pkgutil, cortex_plane
for module in pkgutil.walk_packages(cortex_plane.__path__, "cortex_plane.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except ImportError:
        print(module.name)
"""


class Environment:
    """A Python that has the packages of requirements-core.lock and ours, and no others."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._python, self._folder = python, folder

    def run(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CORTEX_", "PYTHON", "OTEL_"))}
        command = [str(self._python), *words]
        return subprocess.run(
            command, cwd=self._folder, env={**kept, **settings}, capture_output=True, text=True, timeout=50, check=False
        )

    def cortex(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return self.run("-c", "import sys; from cortex_plane.cli.main import main; sys.exit(main())", *words, **settings)


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made of links to the packages that are installed here, so that nothing need be fetched."""
    if ANOTHER_ENVIRONMENT:
        return Path(ANOTHER_ENVIRONMENT)
    folder = tmp_path_factory.mktemp("core")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    (packages / "cortex_plane").symlink_to(SOURCE / "cortex_plane")
    for name in _locked("requirements-core.lock"):
        for file in distribution(name).files or ():
            top, link = file.parts[0], packages / file.parts[0]
            if top not in ("..", "__pycache__") and not link.exists():
                link.symlink_to(Path(str(distribution(name).locate_file(top))))
    return folder / "bin" / "python"


@pytest.fixture
def core(python: Path, tmp_path: Path) -> Environment:
    (tmp_path / "agents.py").write_text(AGENTS)
    return Environment(python, tmp_path)


def _locked(lock: str) -> list[str]:
    """Of this system: the marks of others are those of Windows and PyPy."""
    lines = re.findall(r"(?m)^([a-z0-9.-]+)==[^ ]+(.*)$", (ROOT / lock).read_text())
    return [name for name, rest in lines if "win32'" not in rest]


def test_the_core_has_few_packages_and_no_upper_limits() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]

    limited = [one for one in asked if re.search(r"<|==|~=", one.partition(";")[0])]

    assert limited == []
    assert len(_locked("requirements-core.lock")) <= MOST_PACKAGES


def test_the_modules_that_need_an_extra_are_known(core: Environment) -> None:
    missing = core.run("-c", IMPORT_EVERYTHING).stdout.split()

    assert [name for name in missing if not NEED_EXTRAS.match(name)] == []
    assert {"cortex_plane.http", "cortex_plane.dashboard", "cortex_plane.otel", "cortex_plane.jobs.http"} <= set(missing)


def test_nothing_of_an_extra_is_in_the_environment(core: Environment) -> None:
    """What is shown here would show nothing otherwise."""
    names = [module for modules in MODULES.values() for module in modules]
    program = "from importlib.util import find_spec\nfrom cortex_plane.extras import is_installed\n"

    told = core.run("-c", f"{program}print([name for name in {names!r} if is_installed(name)])").stdout

    assert told == "[]\n"


def test_a_worker_and_the_command_need_no_extra(core: Environment, database_url: str) -> None:
    submitted = core.cortex(
        "jobs", "submit", "greet", "name=ada", "day=2026-01-05", "--app", "agents.py", CORTEX_DATABASE_URL=database_url
    )
    worked = core.cortex("worker", "agents.py", "--until-idle", CORTEX_DATABASE_URL=database_url)
    shown = core.cortex("jobs", "list", "--json", CORTEX_DATABASE_URL=database_url)

    assert (submitted.returncode, worked.returncode, shown.returncode) == (0, 0, 0), submitted.stderr + worked.stderr
    assert '"COMPLETED"' in shown.stdout


def test_the_client_needs_no_extra(core: Environment, database_url: str) -> None:
    secret = asyncio.run(_new_key(database_url))

    with serving(database_url) as url:
        paused = core.cortex("queues", "pause", "mail", CORTEX_SERVER=url, CORTEX_API_KEY=secret)
        shown = core.cortex("gate", "status", "--json", CORTEX_SERVER=url, CORTEX_API_KEY=secret)

    assert paused.returncode == 0, paused.stderr
    assert '"mail"' in shown.stdout


async def _new_key(database_url: str) -> str:
    async with Plane(settings=Settings(database_url=database_url)) as plane:
        return (await plane.access.add_key("laptop", ["admin"])).secret


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["serve"], "`cortex serve`"),
        (["dev", "agents.py"], "`cortex dev`"),
        (["worker", "agents.py", "--metrics-port", "0"], "`cortex worker --metrics-port`"),
        (["users", "add", "ada", "--role", "admin"], "A password"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_command_that_needs_an_extra_says_what_to_type(core: Environment, words: list[str], what: str) -> None:
    ran = core.cortex(*words)

    expected = f"Error: {what} needs packages that are not installed. To install them: pip install 'cortex-plane[server]'\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (5, "", expected)
    assert not list(core._folder.glob("*.db")), "nothing was begun"


@pytest.mark.parametrize(
    ("program", "extra"),
    [
        ("from cortex_plane.http.app import create_app", "server"),
        ("from cortex_plane.dashboard.app import create_dashboard", "server"),
        (
            "from cortex_plane.integrations.email import SmtpTransport; SmtpTransport('mail.example.com', 'a@example.com')",
            "email",
        ),
    ],
)
def test_a_program_that_needs_an_extra_hears_what_to_type(core: Environment, program: str, extra: str) -> None:
    ran = core.run("-c", f"try:\n    {program}\nexcept ImportError as error:\n    print(type(error).__name__, error)")

    assert ran.stdout.startswith("MissingExtra ")
    assert ran.stdout.endswith(f"To install them: pip install 'cortex-plane[{extra}]'\n")


def test_traces_that_are_asked_for_without_the_extra_stop_nothing(core: Environment) -> None:
    settings = {"CORTEX_DATABASE_URL": "sqlite:///cortex.db", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}

    worked = core.cortex("worker", "agents.py", "--until-idle", **settings)

    assert worked.returncode == 0
    assert "pip install 'cortex-plane[otel]'" in worked.stderr
