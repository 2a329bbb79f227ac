"""`cortex doctor`: checks this installation and says what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cortex_plane.adapters.cli.errors import EXIT_UNAVAILABLE, EXIT_USAGE
from cortex_plane.adapters.cli.options import AsJson, OnlyDatabaseUrl
from cortex_plane.adapters.cli.times import ago
from cortex_plane.adapters.system import utc_now

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.text import Text


async def doctor(*, database_url: OnlyDatabaseUrl = None, as_json: AsJson = False) -> int:
    """Check this installation and say what is wrong.

    It changes nothing. The exit code is 5 if the database cannot be used, and 2 if a setting is wrong.

    Try:
        cortex doctor
        cortex doctor --database-url postgresql://me@localhost/jobs
    """
    from cortex_plane.adapters.cli.checks import examine
    from cortex_plane.adapters.cli.output import print_json

    report = await examine(database_url)
    if as_json:
        print_json(report)
    else:
        _print(report)
    if report["database"] is None:
        return EXIT_USAGE
    return 0 if report["database"]["usable"] else EXIT_UNAVAILABLE


def _print(report: dict[str, Any]) -> None:
    from cortex_plane.adapters.cli.output import console, facts, heading, indented, table, words

    say = console()
    sections = {"Program": _program(report), "Database": _database(report["database"]), "Work": _work(report["database"])}
    for name, lines in sections.items():
        if rows := list(lines):
            say.print(heading(name))
            say.print(indented(facts(rows)))
            say.print()
    if report["settings"]:
        say.print(heading("Settings"))
        rows_of_settings = [[words(s["name"]), words(str(s["value"])), words(s["from"], "dim")] for s in report["settings"]]
        say.print(indented(table(["NAME", "VALUE", "FROM"], rows_of_settings)))
        say.print()
    for line in _verdict(report["problems"]):
        say.print(line, soft_wrap=True)


def _program(report: dict[str, Any]) -> Iterator[tuple[str, RenderableType]]:
    program, sqlite = report["program"], report["sqlite"]
    libraries = dict(program["libraries"])
    yield "cortex-plane", libraries.pop("cortex-plane")
    yield "python", f"{program['python']} on {program['platform']}"
    yield "libraries", ", ".join(f"{name} {version}" for name, version in libraries.items())
    yield "sqlite", _mark(sqlite["wal_is_safe"], f"{sqlite['version']}, its write-ahead log", "is safe", "is not safe")


def _database(found: dict[str, Any] | None) -> Iterator[tuple[str, RenderableType]]:
    if found is None:
        return
    if not found["exists"]:
        yield "place", _mark(found["usable"], found["description"], "(made when a worker first uses it)", "(cannot be made)")
        return
    yield "place", _mark(found["usable"], found["description"], "", "(cannot be used)")
    if "server" in found:
        yield "server", f"PostgreSQL {found['server']}"
        yield "wake-ups", _mark(found["notifications"], "notifications", "arrive", "do not arrive")
    if "schema" in found:
        current, pending = found["schema"]["current"], found["schema"]["pending"]
        text = f"version {current}," if current else "none yet,"
        yield "schema", _mark(not (current and pending), text, "up to date" if current else "made at first use", "out of date")


def _work(found: dict[str, Any] | None) -> Iterator[tuple[str, RenderableType]]:
    from cortex_plane.adapters.cli.output import words

    if found is None or "workers" not in found:
        return
    if not found["workers"]:
        yield "workers", "none is running"
    for worker in found["workers"]:
        what = f"{worker['name']}: {', '.join(worker['agents'])}; queues {', '.join(worker['queues'])}"
        seen = ago(worker["heartbeat_at"], utc_now())
        yield "worker", words(f"{what}; {'silent since' if worker['silent'] else 'seen'} {seen}")
    if not found["queues"]:
        yield "queues", "empty"
    for queue, depth in sorted(found["queues"].items()):
        yield "queue", words(f"{queue}: {', '.join(f'{count} {state}' for state, count in sorted(depth.items()))}")


def _mark(good: bool, text: str, if_good: str, if_bad: str) -> Text:
    from cortex_plane.adapters.cli.output import words

    return words("✓ " if good else "✗ ", "green" if good else "red") + words(f"{text} {if_good if good else if_bad}".rstrip())


def _verdict(problems: list[dict[str, str]]) -> Iterator[Text]:
    from cortex_plane.adapters.cli.output import words

    if not problems:
        yield words("No problems were found.", "green")
    for number, problem in enumerate(problems, 1):
        yield words(f"Problem {number}: ", "bold red") + words(problem["what"])
        yield words("           → ", "dim") + words(problem["do"])
