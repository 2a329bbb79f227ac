"""The HTTP API: a thin layer over the plane, with nobody let in who does not belong."""

from cortex_plane.extras import require_extra

require_extra("server", "The HTTP API")
