"""How long people have to decide: what an agent says about all its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from cortex_plane.core.errors import InvalidInput

SHORTEST_SECONDS = 1.0
DEFAULT_TTL_SECONDS = 86_400.0
LONGEST_TTL_SECONDS = 604_800.0


def checked_seconds(value: Any, field: str) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if not fits or not SHORTEST_SECONDS <= value <= 100 * LONGEST_TTL_SECONDS:
        raise InvalidInput(f"{field} must be a number of seconds, 1 or more, not {value!r:.80}.", field=field)
    return float(value)


@dataclass(frozen=True, slots=True)
class ApprovalConfig:
    """How long an agent's requests are valid: when it says nothing, and at most. In `agent.skill_config`."""

    token_ttl_seconds: float = DEFAULT_TTL_SECONDS
    max_ttl_seconds: float = LONGEST_TTL_SECONDS

    def __post_init__(self) -> None:
        checked_seconds(self.token_ttl_seconds, "approval.token_ttl_seconds")
        checked_seconds(self.max_ttl_seconds, "approval.max_ttl_seconds")

    def to_json(self) -> dict[str, float]:
        return {"token_ttl_seconds": self.token_ttl_seconds, "max_ttl_seconds": self.max_ttl_seconds}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ApprovalConfig:
        return cls(
            stored.get("token_ttl_seconds", DEFAULT_TTL_SECONDS),
            stored.get("max_ttl_seconds", LONGEST_TTL_SECONDS),
        )

    def ttl_seconds(self, asked: float | None) -> float:
        """What is asked for, or the default; never more than the cap, nor more than seven days."""
        wanted = self.token_ttl_seconds if asked is None else checked_seconds(asked, "ttl")
        return min(wanted, self.max_ttl_seconds, LONGEST_TTL_SECONDS)


USUAL_CONFIG = ApprovalConfig()
