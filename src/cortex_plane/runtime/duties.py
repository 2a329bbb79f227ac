"""What every worker does besides its jobs. Each is done for the whole fleet; that several do it changes nothing."""

from __future__ import annotations

from cortex_plane.ports.clock import Clock, NewId
from cortex_plane.ports.store import Store
from cortex_plane.runtime.deadlines import Deadlines
from cortex_plane.runtime.duty import Duty
from cortex_plane.runtime.lending import Lender
from cortex_plane.runtime.pruner import Pruner
from cortex_plane.runtime.reconciler import Reconciler
from cortex_plane.runtime.reporter import Reporter
from cortex_plane.runtime.rescuer import Rescuer
from cortex_plane.runtime.run_figures import RunFigures
from cortex_plane.runtime.sealer import Sealer
from cortex_plane.runtime.timers import BATCH, Timers


def duties_of(
    store: Store, clock: Clock, new_id: NewId, lender: Lender, rescuer: Rescuer, reporter: Reporter, figures: RunFigures
) -> list[Duty]:
    return [
        Duty("timers", Timers(store).once, clock),
        Duty("deadlines", Deadlines(store).once, clock),
        Duty("rescuer", rescuer.once, clock),
        Duty("sealer", Sealer(store).once, clock),
        Duty("pruner", Pruner(store).once, clock),
        Duty("reconciler", Reconciler(store, lender.directory, new_id).once, clock),
        Duty("reporter", reporter.once, clock),
        Duty("counter", figures.once, clock),
    ]


async def make_ready(store: Store) -> None:
    """What is due at this moment, for a worker that will not wait for its duties."""
    await Deadlines(store).act()
    await store.queue.promote_due(BATCH)
