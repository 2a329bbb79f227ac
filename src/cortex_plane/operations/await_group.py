"""Waits until a group is finished: no member is open any more, and its callback is submitted."""

from __future__ import annotations

from cortex_plane.core.groups import Group, GroupNotFinished
from cortex_plane.operations.await_result import FIRST_PAUSE_SECONDS, GROWTH, LONGEST_PAUSE_SECONDS
from cortex_plane.operations.show_group import show_group
from cortex_plane.ports.clock import Clock
from cortex_plane.ports.store import Store


async def await_group(store: Store, clock: Clock, id_or_prefix: str, timeout_seconds: float | None = None) -> Group:
    """However it ended; raises GroupNotFinished when that takes longer."""
    until = None if timeout_seconds is None else clock.elapsed() + timeout_seconds
    pause = FIRST_PAUSE_SECONDS
    while not (group := await show_group(store, id_or_prefix)).is_finished:
        if until is not None and clock.elapsed() + pause > until:
            raise GroupNotFinished(group.id, group.status, group.tally.ended, group.tally.members, timeout_seconds or 0.0)
        await clock.sleep(pause)
        pause = min(pause * GROWTH, LONGEST_PAUSE_SECONDS)
    return group
