"""What a measured process is told, and how it answers. Standard library only: peers run in another environment."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Order:
    """What to measure: `jobs` are drained, of which `singles` are submitted one by one and the others in batches."""

    database: str
    jobs: int
    singles: int
    spaced: int = 0
    finished_before: int = 0
    later_before: int = 0
    settle: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def given(cls) -> Order:
        return cls(**json.loads(sys.argv[1]))

    def text(self) -> str:
        return json.dumps(asdict(self))


def tell(measure: str, value: float) -> None:
    print(json.dumps({"measure": measure, "value": value}), flush=True)
