"""Everything that is counted, measured and asked, in the words of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cortex_plane.metrics.service import Histogram, Labels, counted, measured

if TYPE_CHECKING:
    from cortex_plane.metrics.model import Figures
    from cortex_plane.worker.loops import BackgroundLoop

COUNTERS = {
    "runs": "Runs that ended in this process, by how.",
    "uncertain_calls": "Tool calls of which nobody knew whether they took effect, so that their job failed or asked people.",
    "jobs_held": "Jobs that were held because their record did not fit the code of this worker.",
    "retries": "Runs that failed and are tried again, in place or as a new job.",
    "rescued_runs": "Runs of lost workers that this process took care of.",
    "poisoned_jobs": "Jobs that were given up because workers died of them.",
    "stale_writes": "Outcomes that were refused because their run was superseded.",
    "checkpoint_corruptions": "Checkpoints that were found damaged, by what is wrong with them.",
    "http_requests": "Requests that were answered, by method, route and status.",
}
HISTOGRAMS = {
    "run_seconds": "How long runs take in their handlers.",
    "pick_up_seconds": "How long jobs are due before their first run begins; one is measured each second.",
    "checkpoint_bytes": "The largest checkpoint of each run that has any.",
    "http_request_seconds": "How long requests take until their answer begins.",
}


def exposition(figures: Figures | None, loops: Iterable[BackgroundLoop], *, asked: bool) -> bytes:
    """The text that a scrape is answered with. `figures` is None when the database was `asked` and did not answer."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected([*_of_process(loops), *_of_database(figures, asked)]))
    return generate_latest(registry)


class _Collected(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


# -- this process --------------------------------------------------------------------------------
def _of_process(loops: Iterable[BackgroundLoop]) -> Iterator[Metric]:
    counts, histograms = counted(), measured()
    for name, help_text in COUNTERS.items():
        found = {labels: value for (known, labels), value in counts.items() if known == name}
        counter = CounterMetricFamily(f"cortex_{name}", help_text, labels=_names(found))
        for labels, value in found.items():
            counter.add_metric(_values(labels), value)
        yield counter
    for name, help_text in HISTOGRAMS.items():
        shapes = {labels: value for (known, labels), value in histograms.items() if known == name}
        family = HistogramMetricFamily(f"cortex_{name}", help_text, labels=_names(shapes))
        for labels, shape in shapes.items():
            family.add_metric(_values(labels), _buckets(shape), shape.total)
        yield family
    yield _loops(loops)


def _loops(loops: Iterable[BackgroundLoop]) -> Metric:
    family = GaugeMetricFamily("cortex_loop_last_good_seconds", "How long ago a loop last went well.", labels=["loop"])
    latest: dict[str, float] = {}
    for loop in loops:
        latest[loop.name] = max(latest.get(loop.name, 0.0), loop.seconds_since_good())
    for name, seconds in latest.items():
        family.add_metric([name], seconds)
    return family


def _names(found: Iterable[Labels]) -> list[str]:
    return [name for name, _ in next(iter(found), ())]


def _values(labels: Labels) -> list[str]:
    return [value for _, value in labels]


def _buckets(shape: Histogram) -> list[tuple[str, float]]:
    """Cumulative, as Prometheus wants them."""
    total, found = 0, []
    for bound, values in zip([*map(str, shape.bounds), "+Inf"], list(shape.counts), strict=True):
        total += values
        found.append((bound, float(total)))
    return found


# -- the database --------------------------------------------------------------------------------
def _of_database(figures: Figures | None, asked: bool) -> Iterator[Metric]:
    if asked:
        yield _gauge("cortex_database_up", "Whether the database answered.", figures is not None)
    if figures is None:
        return
    jobs = GaugeMetricFamily("cortex_jobs", "Jobs that have not ended.", labels=["queue", "state"])
    oldest = GaugeMetricFamily("cortex_queue_oldest_ready_seconds", "How long the oldest ready job is due.", labels=["queue"])
    for waiting in figures.waiting:
        jobs.add_metric([waiting.queue, waiting.state], waiting.jobs)
        if waiting.state == "ready":
            oldest.add_metric([waiting.queue], waiting.oldest_seconds)
    for queue, running in figures.running.items():
        jobs.add_metric([queue, "running"], running)
    for approvals in figures.approvals:
        jobs.add_metric([approvals.queue, approvals.state], approvals.jobs)
    yield jobs
    yield oldest
    first = max((approvals.oldest_seconds for approvals in figures.approvals), default=0.0)
    waiting_for_people = sum(approvals.jobs for approvals in figures.approvals)
    yield _gauge("cortex_approvals_waiting", "Jobs that wait for people.", waiting_for_people)
    yield _gauge("cortex_approvals_oldest_seconds", "For how long the first of them does.", first)
    yield _gauge("cortex_slots_late", "Schedules whose slot should have begun a minute ago.", figures.slots_late)
    yield _gauge("cortex_slots_late_seconds", "How late the latest of them is.", figures.slots_late_seconds)
    yield _gauge("cortex_workers_live", "Workers that live.", figures.workers_live)
    yield _gauge("cortex_gate_open", "Whether work is started at all.", figures.gate_open)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=float(value))
