"""For users' tests: a plane on a throw-away store, a clock that the test turns, a PostgreSQL server that goes away again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cortex_plane.testing.clock import ManualClock
    from cortex_plane.testing.cluster import PostgresCluster
    from cortex_plane.testing.planes import TestPlane, throwaway_plane


__all__ = ["ManualClock", "PostgresCluster", "TestPlane", "throwaway_plane"]

# Imported when they are first used: pytest loads the plugin beside this in every project that has us installed.
_HOMES = {
    "ManualClock": "cortex_plane.testing.clock",
    "PostgresCluster": "cortex_plane.testing.cluster",
    "TestPlane": "cortex_plane.testing.planes",
    "throwaway_plane": "cortex_plane.testing.planes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
