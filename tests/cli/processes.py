"""The command line as a process of its own, for signals, terminals and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

COMMAND = [sys.executable, "-c", "import sys; from cortex_plane.cli.main import main; sys.exit(main())"]


class Process:
    """Ends with the test, whatever happens in it."""

    def __init__(self, words: tuple[str, ...], folder: Path, settings: dict[str, str]) -> None:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
        self._process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=folder,
            env={**outside, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []

    def wait_for(self, text: str) -> None:
        """Reads the log until a line has the text."""
        self._read(self._process.stderr, text)

    def wait_for_output(self, text: str) -> None:
        self._read(self._process.stdout, text)

    def _read(self, stream: IO[str] | None, text: str) -> None:
        assert stream is not None
        for line in stream:
            self.lines.append(line)
            if text in line:
                return
        raise AssertionError(f"{text!r} never came:\n{''.join(self.lines)}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> tuple[int, str]:
        """The exit code, and everything on stderr."""
        _, rest = self._process.communicate(timeout=30)
        return self._process.returncode, "".join(self.lines) + rest

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def started(*words: str, folder: Path, **settings: str) -> Iterator[Process]:
    process = Process(words, folder, settings)
    try:
        yield process
    finally:
        process.kill()
