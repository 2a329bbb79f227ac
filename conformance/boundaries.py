"""Where a process may be killed or frozen: before and after each commit and each effect. Standard library only."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEVER = 0


class Boundaries:
    """Counts the boundaries passed by any thread. At the chosen one, by number or by name, kills or freezes this process."""

    def __init__(self, kill_at: int, told: Path, kill_when: str = "", *, freeze: bool = False) -> None:
        self.passed = 0
        self._kill_at, self._kill_when, self._freeze = kill_at, kill_when, freeze
        self._told = told
        self._lock = threading.Lock()

    def reach(self, what: str) -> None:
        with self._lock:
            self.passed += 1
            if self.passed == self._kill_at or what == self._kill_when:
                self._told.write_text(what)
                if self._freeze:
                    os.kill(os.getpid(), signal.SIGSTOP)  # Returns when the host sends SIGCONT.
                    return
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)  # Nothing after this line ever happens.

    @contextmanager
    def around(self, what: str) -> Iterator[None]:
        self.reach(f"before {what}")
        yield
        self.reach(f"after {what}")
