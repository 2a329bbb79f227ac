"""The pages on which people see what happens and steer it: drawn here, on any server, and of use without script."""

from cortex_plane.extras import require_extra

require_extra("server", "The dashboard")
