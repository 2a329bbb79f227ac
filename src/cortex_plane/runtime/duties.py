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
from cortex_plane.runtime.timers import Timers


class Due:
    """What has fallen due. Two duties see to it in their own time; a worker that will not wait for them makes it ready."""

    def __init__(self, store: Store) -> None:
        self.timers, self.deadlines = Timers(store), Deadlines(store)

    async def make_ready(self) -> None:
        await self.deadlines.act()
        await self.timers.promote()


def duties_of(
    store: Store, clock: Clock, new_id: NewId, lender: Lender, due: Due, rescuer: Rescuer, reporter: Reporter, figures: RunFigures
) -> list[Duty]:
    return [
        Duty("timers", due.timers.once, clock),
        Duty("deadlines", due.deadlines.once, clock),
        Duty("rescuer", rescuer.once, clock),
        Duty("sealer", Sealer(store).once, clock),
        Duty("pruner", Pruner(store).once, clock),
        Duty("reconciler", Reconciler(store, lender.directory, new_id).once, clock),
        Duty("reporter", reporter.once, clock),
        Duty("counter", figures.once, clock),
    ]
