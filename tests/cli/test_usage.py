"""Wrong words are answered with what is wrong and where to read more."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Cortex

CASES = {
    "wrker": 'Unknown command "wrker". Did you mean "worker"? '
    "Available commands: jobs, runs, queues, workers, gate, approvals, templates, groups, ...\n"
    "For help: cortex --help",
    "jobs lst": 'Unknown command "lst". Did you mean "list"? '
    "Available commands: submit, list, show, watch, cancel, resume, settle, retry, ...\n"
    "For help: cortex jobs --help",
    "--verbose": 'Unknown option "--verbose". Options come after the command.\nFor help: cortex --help',
    "jobs list --statu failed": "Unknown option: --statu. Did you mean --status?\nFor help: cortex jobs list --help",
    "jobs list --limit ten": '--limit must be a whole number, not "ten".\nFor help: cortex jobs list --help',
    "jobs list --limit": "--limit needs a value.\nFor help: cortex jobs list --help",
    "jobs list --limit 0": "--limit must be from 1 to 1000, not 0. For more, use --before.",
    "jobs list --status faild": '"faild" is not a status. Did you mean "failed"? There are: pending, running, completed, failed, '
    "waiting_for_approval, retry, cancelled.",
    "jobs list now": 'Unexpected argument "now".\nFor help: cortex jobs list --help',
    "jobs show": "ID is missing.\nFor help: cortex jobs show --help",
    "jobs watch --json": "ID is missing.\nFor help: cortex jobs watch --help",
    "jobs cancel": "ID is missing.\nFor help: cortex jobs cancel --help",
    "jobs retry a b": 'Unexpected argument "b".\nFor help: cortex jobs retry --help',
    "jobs submit": "AGENT is missing.\nFor help: cortex jobs submit --help",
    "jobs submit greet --name=Ada": "Unknown option: --name=Ada.\n"
    "Write the agent's arguments without dashes: name=Ada\nFor help: cortex jobs submit --help",
    "jobs submit greet --delay 5x": "--delay '5x' is not a duration. Write 90, 90s, 5m, 1h30m or 2d.",
    "jobs submit greet --run-timeout soon": "--run-timeout 'soon' is not a duration. Write 90, 90s, 5m, 1h30m or 2d.",
    "jobs submit greet --run-at soon": "--run-at 'soon' is not a time. "
    "Write 2026-01-05T09:00 for UTC, or 2026-01-05T09:00+01:00.",
    "db statsu": 'Unknown command "statsu". Did you mean "status"? Available commands: status, upgrade, repair.\n'
    "For help: cortex db --help",
    "db upgrade now": 'Unexpected argument "now".\nFor help: cortex db upgrade --help',
    "doctor --jsn": "Unknown option: --jsn. Did you mean --json?\nFor help: cortex doctor --help",
    "worker a.py b.py": 'Unexpected argument "b.py".\nFor help: cortex worker --help',
    "worker --concurrency many": '--concurrency must be a whole number, not "many".\nFor help: cortex worker --help',
    "worker": "No app given. Name the file with your plane, such as: cortex worker examples/hello.py\nOr set CORTEX_APP.",
}


@pytest.mark.parametrize("line", CASES)
def test_wrong_words_end_with_exit_code_2_and_advice(cortex: Cortex, line: str) -> None:
    result = cortex(*line.split())

    assert (result.code, result.out) == (2, "")
    assert result.err == f"Error: {CASES[line]}\n"


def test_an_empty_queue_name_is_refused(cortex: Cortex) -> None:
    result = cortex("worker", "app.py", "--queue", "")

    assert (result.code, result.err) == (2, "Error: --queue needs the name of a queue.\n")
