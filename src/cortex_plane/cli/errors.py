"""Error messages on stderr, and exit codes. Tracebacks are shown with CORTEX_LOG_LEVEL=debug only.

0  success                4  conflict: the state does not allow this
1  unexpected error       5  unavailable: the database, a server, or an extra
2  wrong usage or input   6  denied
3  not found              7  the job failed or was cancelled (watch, submit --wait)
                          130 interrupted
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from cortex_plane.cli.front_page import painted
from cortex_plane.cli.hints import without_password
from cortex_plane.errors import Conflict, CortexError, Denied, InvalidInput, JobCancelled, JobFailed, NotFound, Unavailable

EXIT_UNEXPECTED = 1
EXIT_USAGE = 2
EXIT_UNAVAILABLE = 5
EXIT_JOB_FAILED = 7
EXIT_INTERRUPTED = 130

EXIT_CODES: dict[type[CortexError], int] = {
    InvalidInput: EXIT_USAGE,
    NotFound: 3,
    Conflict: 4,
    Unavailable: EXIT_UNAVAILABLE,
    Denied: 6,
    JobFailed: EXIT_JOB_FAILED,
    JobCancelled: EXIT_JOB_FAILED,
}


def guarded(run: Callable[[], int]) -> int:
    """Runs a command. Errors become a message and an exit code."""
    _replace_unprintable_characters()
    try:
        code = run()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _close_stdout()
    except Exception as error:
        return report(error)


def exit_code_of(error: CortexError) -> int:
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), EXIT_UNEXPECTED)


def report(error: Exception) -> int:
    from cyclopts import CycloptsError

    if os.environ.get("CORTEX_LOG_LEVEL", "").lower() == "debug":
        traceback.print_exception(error)
    match error:
        case CycloptsError():
            from cortex_plane.cli.help import usage_message

            return _say(usage_message(error), EXIT_USAGE)
        case CortexError():
            return _say(str(error), exit_code_of(error))
        case _:
            return _say(
                f"Unexpected error: {type(error).__name__}: {error}\n"
                "For a traceback, set CORTEX_LOG_LEVEL=debug and try again. If it is a bug in Cortex Plane, please report it.",
                EXIT_UNEXPECTED,
            )


def _say(message: str, code: int) -> int:
    print(f"{painted('Error:', 'red', sys.stderr)} {without_password(message)}", file=sys.stderr)
    return code


def _close_stdout() -> int:
    """The reader of the pipe, such as `head`, has closed it. Redirects stdout, so that Python does not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_UNEXPECTED


def _replace_unprintable_characters() -> None:
    """Characters that the terminal's encoding lacks are printed as question marks."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")
