"""Runs a program as a job: its output goes to a log file, what it leaves in its folder is kept, its exit code decides.

The program runs under a guard (`guard.py`), which ends its whole process group when the worker dies.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortex_plane.durable.artifacts import make_private_folder, open_private, write_private
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.outcomes import Done
from cortex_plane.json import dumps, encode
from cortex_plane.worker.failures import CommandFailed

if TYPE_CHECKING:
    from cortex_plane.durable.context import Context

GUARD = Path(__file__).with_name("guard.py")
TERM_SECONDS = 5.0
TAIL_CHARACTERS = 500
LARGEST_VARIABLE_BYTES = 100_000


PASSED_ON = (
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "SYSTEMROOT",
)  # fmt: skip
"""Of the worker's environment, besides LC_*. It also holds the address of the database, tokens and keys."""


def command_handler(
    argv: Sequence[str], files: Path, *, environment: Sequence[str] = (), allow_options: bool = False
) -> Callable[..., Any]:
    """A handler that runs `argv`; `{name}` in it is replaced by the job's argument of that name. The program sees a few
    variables of the worker, and those named in `environment`. An argument whose value turns it into an option is refused
    unless `allow_options` is set: `date {when}` would read any file for `-f/etc/passwd`."""
    named = _checked_names(environment)

    async def run_command(ctx: Context, **arguments: Any) -> Any:
        folder = files / "runs" / ctx.job_id / ctx.run_id
        artifacts = folder / "artifacts"
        make_private_folder(artifacts)
        write_private(folder / "payload.json", dumps(arguments))
        log_path = folder / "output.log"
        ctx.details = {"log_path": str(log_path)}
        with open_private(log_path) as log_file:
            words = _filled(argv, arguments, allow_options=allow_options)
            process = await _start(words, _environment(ctx, arguments, folder, named), log_file)
            exit_code = await _ended(process)
        run = {"exit_code": exit_code, "log_path": str(log_path), "artifacts": _files_in(artifacts)}
        if exit_code != 0:
            raise CommandFailed(f"{argv[0]} ended with exit code {exit_code}. {_tail(log_path)}".strip(), run)
        return Done(encode(run, "result"), run=run)

    return run_command


def _checked_names(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) and name and "=" not in name for name in names):
        raise InvalidInput(f'environment must be a list of names of variables, such as ["AWS_PROFILE"], not {names!r:.80}.')
    return tuple(names)


def _filled(argv: Sequence[str], arguments: dict[str, Any], *, allow_options: bool = False) -> list[str]:
    """Arguments take the place of whole words' parts; no shell ever sees them."""
    try:
        words = [part.format_map(arguments) for part in argv]
    except KeyError as missing:
        raise InvalidInput(f"The command needs the argument {missing}, which the job does not have.", field="payload") from None
    except (IndexError, ValueError, AttributeError) as error:
        raise InvalidInput(f"The command's words cannot be filled in: {error}.", field="payload") from None
    for part, word in zip(argv, words, strict=True):
        if part == "--":
            break  # Arguments after `--` are not options.
        if word.startswith("-") and not part.startswith("-") and not allow_options:
            raise InvalidInput(
                f"The word {part!r:.60} of the command became {word!r:.60}, which the program would take for an option. "
                'Write "--" before it, or allow options: plane.command(…, allow_options=True).',
                field="payload",
            )
    return words


def _environment(ctx: Context, arguments: dict[str, Any], folder: Path, named: Sequence[str] = ()) -> dict[str, str]:
    """The payload is in a file; and, where a variable can hold it, in the environment too."""
    payload = dumps(arguments)
    passed_on = {*PASSED_ON, *named}
    environment = {
        **{name: value for name, value in os.environ.items() if name in passed_on or name.startswith("LC_")},
        "CORTEX_JOB_ID": ctx.job_id,
        "CORTEX_RUN_ID": ctx.run_id,
        "CORTEX_ATTEMPT": str(ctx.attempt),
        "CORTEX_ARTIFACTS": str(folder / "artifacts"),
        "CORTEX_PAYLOAD_FILE": str(folder / "payload.json"),
    }
    if len(payload.encode()) <= LARGEST_VARIABLE_BYTES:
        environment["CORTEX_PAYLOAD"] = payload
    return environment


async def _start(argv: list[str], environment: dict[str, str], log_file: Any) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(GUARD),
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            env=environment,
        )
    except OSError as error:
        if error.errno != errno.E2BIG:
            raise
        raise InvalidInput(
            "The payload makes the command's words too long for the system. Read it from $CORTEX_PAYLOAD_FILE instead.",
            field="payload",
        ) from None


async def _ended(process: asyncio.subprocess.Process) -> int:
    try:
        return await process.wait()
    except asyncio.CancelledError:
        await asyncio.shield(_kill_group(process))
        raise


async def _kill_group(process: asyncio.subprocess.Process) -> None:
    for how, patience in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, TERM_SECONDS)):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            pass
        try:
            await asyncio.wait_for(process.wait(), patience)
        except TimeoutError:
            continue
        if how is signal.SIGKILL:
            return
    return


def _files_in(folder: Path) -> list[str]:
    """Names that are not text are shown with their bytes escaped."""
    return sorted(os.fsencode(path).decode(errors="backslashreplace") for path in folder.rglob("*") if path.is_file())


def _tail(log_path: Path) -> str:
    text = log_path.read_bytes()[-4 * TAIL_CHARACTERS :].decode(errors="replace").strip()
    return f"Its output ends: {text[-TAIL_CHARACTERS:]}" if text else "It printed nothing."
