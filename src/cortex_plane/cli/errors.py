"""From an error to a message on stderr and an exit code. Tracebacks only with CORTEX_LOG_LEVEL=debug.

0  done                   4  conflict: its state does not allow this
1  unexpected             5  unavailable: the database, or an extra
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
    """Runs a command; whatever it raises becomes a message and an exit code."""
    _never_stumble_over_characters()
    try:
        code = run()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _nobody_reads()
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
                f"Something unexpected happened: {type(error).__name__}: {error}\n"
                "To see where, set CORTEX_LOG_LEVEL=debug and try again. If it looks like our mistake, please report it.",
                EXIT_UNEXPECTED,
            )


def _say(message: str, code: int) -> int:
    print(f"{painted('Error:', 'red', sys.stderr)} {without_password(message)}", file=sys.stderr)
    return code


def _nobody_reads() -> int:
    """The reader of a pipe, such as `head`, has seen enough. Nothing more may be written, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_UNEXPECTED


def _never_stumble_over_characters() -> None:
    """A terminal that cannot show a character gets a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")
