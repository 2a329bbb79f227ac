"""The JSON Schema of checkpoints, as `cortex schema checkpoint` prints it."""

from __future__ import annotations

import json

from cortex_plane.plane import Plane
from cortex_plane.settings import Settings
from docs.builder.markdown import code


def page() -> str:
    schema = Plane(settings=Settings()).checkpoints.schema()
    return (
        "# The checkpoint\n\n"
        "What is recorded of a job. Every write and every load is checked against this, and against a CRC-32 "
        "over the document's normal form. `cortex schema checkpoint` prints the same.\n\n"
        + code(json.dumps(schema, indent=2), "json")
    )
