"""People whom gates ask."""

from __future__ import annotations

import pytest

from cortex_plane.testing import TestPlane
from tests.durable.approval_scene import People


@pytest.fixture
async def people(plane: TestPlane) -> People:
    people = People(plane)
    await people.add("alice", "bob")
    await people.make_approver("alice")
    return people
