"""Where a test wants a worker to die: at a named step or tool, once, as if its process had been killed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Moment = Literal["before_step", "after_step", "before_tool", "after_tool", "asking"]


class SimulatedCrash(BaseException):
    """Ends a handler in the middle. Nothing that it does on its way out is kept."""


@dataclass(slots=True)
class CrashPoint:
    moment: Moment
    name: str
    occurrence: int = 1
    """Of the times at which the step or tool really happens, not of those at which it is answered from the record."""

    def is_reached(self, moment: str, name: str) -> bool:
        if (moment, name) != (self.moment, self.name):
            return False
        self.occurrence -= 1
        return self.occurrence == 0
