"""Every queue in which something waits or runs, or for which something is set."""

from __future__ import annotations

from cortex_plane.core.controls import Control, Scope
from cortex_plane.core.queues import QueueState
from cortex_plane.ports.store import Store


async def look_at_queues(store: Store) -> list[QueueState]:
    """By name."""
    depths = await store.queue.depths()
    controls = {control.name: control for control in await store.controls.list() if control.scope is Scope.QUEUE}
    running: dict[str, int] = {}
    for queue, _, _, count in await store.queue.running():
        running[queue] = running.get(queue, 0) + count
    return [
        QueueState(
            name=name,
            waiting=depths.get(name, {}),
            running=running.get(name, 0),
            control=controls.get(name) or Control(Scope.QUEUE, name),
        )
        for name in sorted({*depths, *running, *controls})
    ]
