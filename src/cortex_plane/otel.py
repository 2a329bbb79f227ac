"""OpenTelemetry traces: enabled by a tracer provider that is set before the plane opens, or by the OTEL_… variables."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from cortex_plane.jobs.outcomes import Failed, Outcome
from cortex_plane.telemetry import RunSpan, carried

if TYPE_CHECKING:
    from cortex_plane.jobs.model import Claimed

log = structlog.get_logger()

Result = TypeVar("Result")

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
W3C = TraceContextTextMapPropagator()
SILENT: dict[str, Any] = {"record_exception": False, "set_status_on_exception": False}
"""Spans record the exception type, not the message: a message may contain secrets."""


def is_wanted() -> bool:
    """Whether the environment enables traces. A program that sets a tracer provider does not need the variables."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(os.environ.get(name) for name in VARIABLES)


def open_telemetry() -> OpenTelemetry | None:
    """None if there is no tracer provider and the environment does not enable traces."""
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider) and not (is_wanted() and _export()):
        return None
    return OpenTelemetry(trace.get_tracer("cortex_plane"))


def _export() -> bool:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # type: ignore[import-not-found,unused-ignore]
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        log.warning("traces_not_exported", error=str(error), advice="pip install 'cortex-plane[otel]'")
        return False
    provider = TracerProvider(resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "cortex-plane")}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return True


class OpenTelemetry:
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def submitting(self, agents: Sequence[str], parent: str | None) -> Iterator[str | None]:
        named: dict[str, AttributeValue] = {"cortex.agents": sorted(set(agents)), "cortex.jobs": len(agents)}
        around = _context(parent)
        with self._tracer.start_as_current_span("submit", around, kind=SpanKind.PRODUCER, attributes=named, **SILENT):
            carrier: dict[str, str] = {}
            W3C.inject(carrier)
            yield carrier.get("traceparent")

    @contextmanager
    def running(self, claimed: Claimed, trace: str | None, retried: str | None) -> Iterator[RunSpan]:
        known: dict[str, AttributeValue] = {
            "cortex.job_id": claimed.job_id,
            "cortex.run_id": claimed.run_id,
            "cortex.agent": claimed.job_type,
            "cortex.queue": claimed.queue,
            "cortex.tenant_id": claimed.tenant_id,
            "cortex.attempt": claimed.attempt,
        }
        links = [*_links(retried), *(_links(trace) if claimed.attempt > 1 else ())]
        around, name = _context(trace) or Context(), f"run {claimed.job_type}"
        with self._tracer.start_as_current_span(
            name, around, kind=SpanKind.CONSUMER, attributes=known, links=links, **SILENT
        ) as span:
            yield lambda outcome: _tell(span, outcome)

    async def working(self, kind: str, name: str, work: Awaitable[Result]) -> Result:
        known: dict[str, AttributeValue] = {"cortex.step": name, "cortex.kind": kind}
        with self._tracer.start_as_current_span(f"{kind} {name}", attributes=known, **SILENT) as span:
            try:
                return await work
            except Exception as error:
                _failed(span, type(error).__name__)
                raise


def _tell(span: Span, outcome: Outcome) -> None:
    span.set_attribute("cortex.outcome", type(outcome).__name__)
    if isinstance(outcome, Failed):
        _failed(span, str(outcome.error.get("type")))


def _failed(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


def _context(kept: str | None) -> Context | None:
    traceparent = carried(kept)
    return None if traceparent is None else W3C.extract({"traceparent": traceparent}, Context())


def _links(kept: str | None) -> list[Link]:
    context = _context(kept)
    return [] if context is None else [Link(trace.get_current_span(context).get_span_context())]
