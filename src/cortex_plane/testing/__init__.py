"""For users' tests: a plane on a throw-away store, a clock that the test turns, a PostgreSQL server that goes away again."""

from cortex_plane.testing.clock import ManualClock
from cortex_plane.testing.cluster import PostgresCluster
from cortex_plane.testing.planes import TestPlane, throwaway_plane

__all__ = ["ManualClock", "PostgresCluster", "TestPlane", "throwaway_plane"]
