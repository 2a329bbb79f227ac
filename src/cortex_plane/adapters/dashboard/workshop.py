"""Workers that the server itself has started, as `cortex dev` does: they may be killed from a page, to see a job resume."""

from __future__ import annotations

from typing import Protocol


class Workshop(Protocol):
    def has(self, worker_name: str) -> bool: ...

    def kill(self, worker_name: str) -> bool:
        """At once, without a word to it; another is started in its place. False when there is no such worker."""
