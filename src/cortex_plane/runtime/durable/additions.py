"""What a run has recorded since it last wrote its checkpoint whole: a long document is not written anew at every step.

A run begins by writing one: what an earlier run wrote is not added to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cortex_plane.runtime.durable.entries import ToolState

WHOLE_BELOW_BYTES = 4096
"""A shorter document is written whole: it stays in its row, and is hardly longer than what was added."""
LONGEST_BYTES = 3072
"""What is longer than this is not added, but written whole."""


@dataclass(slots=True)
class Additions:
    log_from: int | None = None
    """How many logged steps the whole document has. None: there is none, or something in it has been dropped since."""
    steps: dict[str, Any] = field(default_factory=dict)
    memory_version: int = 0
    _tools: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    def begin(self, logged: int, tools: Mapping[str, ToolState], memory_version: int) -> None:
        """All that there is has been written whole."""
        self.log_from = logged
        self.steps = {}
        self.memory_version = memory_version
        self._tools = {key: (tool.status, tool.result) for key, tool in tools.items()}

    def something_was_dropped(self) -> None:
        """By adding to a whole document nothing can be taken from it: the next one is written whole."""
        self.log_from = None

    def changed(self, tools: Mapping[str, ToolState]) -> list[ToolState]:
        """Those that are new or have gone on since. None ever goes back to what it was."""
        return [tool for key, tool in tools.items() if self._tools.get(key) != (tool.status, tool.result)]
