"""LangGraph's own definition of a checkpoint saver, its optional parts included, on both stores."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer
from langgraph.checkpoint.conformance.validate import validate

from cortex_plane.integrations.langgraph import PlaneSaver
from cortex_plane.stores import Store

pytestmark = pytest.mark.anyio

CHECKS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


async def test_the_saver_conforms_in_every_capability(store: Store) -> None:
    async def savers() -> AsyncGenerator[BaseCheckpointSaver[str], None]:
        yield PlaneSaver(store.graphs)

    report = await validate(RegisteredCheckpointer("PlaneSaver", savers))

    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert {name: result.tests_passed for name, result in report.results.items()} == CHECKS
