"""A process that ends when the one that started it is gone, however that came about: by a pipe that nobody writes to.

The parent holds one end of the pipe and does nothing with it. When it dies, even by SIGKILL, the system closes that end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

LAST_SECONDS = 10.0
EXIT_ORPHANED = 128 + signal.SIGTERM

# What the parent runs: the descriptor of the pipe's other end, then the words of the command.
PROGRAM = "import sys; from cortex_plane.adapters.cli.orphans import main; sys.exit(main(sys.argv[1:]))"


def main(arguments: Sequence[str]) -> int:
    from cortex_plane.adapters.cli.main import main as cortex

    descriptor, *words = arguments
    sys.argv = ["cortex", *words]
    end_with(int(descriptor))
    return cortex(words)


def end_with(descriptor: int) -> None:
    """From now on the end of the pipe's other side is a SIGTERM for this process; and what has not ended soon after, ends."""
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_watch, args=(descriptor,), name="cortex-orphan-watch", daemon=True).start()


def _watch(descriptor: int) -> None:
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LAST_SECONDS)
    os._exit(EXIT_ORPHANED)
