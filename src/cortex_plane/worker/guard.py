"""Runs a program and ends with its exit code. When the worker that started it dies, it kills the whole process group.

Started as a script of its own, with a pipe from the worker as standard input: the pipe ends when the worker does.
"""

import os
import signal
import subprocess
import sys
import threading

NOT_FOUND = 127
NOT_EXECUTABLE = 126


def watch_worker() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> int:
    try:
        program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        print(f"There is no program {sys.argv[1]!r}.", file=sys.stderr)
        return NOT_FOUND
    except OSError as error:
        print(f"{sys.argv[1]!r} cannot be run: {error}.", file=sys.stderr)
        return NOT_EXECUTABLE
    threading.Thread(target=watch_worker, daemon=True).start()
    # A signal to the group is meant for the program; the guard stays to report its exit code.
    signal.signal(signal.SIGTERM, lambda *_: None)
    exit_code = program.wait()
    return exit_code if exit_code >= 0 else 128 - exit_code


if __name__ == "__main__":
    sys.exit(main())
