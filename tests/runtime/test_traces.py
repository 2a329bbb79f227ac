"""Traces: a submission, its runs, their steps and tools belong together, through the queue. Where nobody wants them: nothing."""

from __future__ import annotations

import os
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cortex_plane import Context, RetryPolicy, Submission
from cortex_plane.jobs.retry import Backoff
from cortex_plane.otel import OpenTelemetry
from cortex_plane.telemetry import carried, traceparent_of
from cortex_plane.testing import TestPlane
from cortex_plane.wiring import telemetry

pytestmark = pytest.mark.anyio

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
async def traced(plane: TestPlane, spans: InMemorySpanExporter) -> TestPlane:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    plane.telemetry = OpenTelemetry(provider.get_tracer("test"))
    return plane


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def id_of(span: ReadableSpan) -> int:
    return int(span.context.span_id) if span.context else 0


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else int(span.parent.span_id)


async def test_a_run_and_its_steps_and_tools_belong_to_the_submission(traced: TestPlane, spans: InMemorySpanExporter) -> None:
    @traced.agent("release")
    async def release(ctx: Context) -> None:
        await ctx.step("build", str)
        await ctx.tool("deploy", str)

    job = await traced.submit("release")
    await traced.work()

    [submit], [run] = named(spans, "submit"), named(spans, "run release")
    [step], [tool] = named(spans, "step build"), named(spans, "tool deploy")
    assert parent_of(run) == id_of(submit)
    assert parent_of(step) == parent_of(tool) == id_of(run)
    assert len({span.context.trace_id for span in (submit, run, step, tool) if span.context}) == 1
    assert dict(run.attributes or {})["cortex.job_id"] == job.id
    assert run.links == ()


async def test_what_a_retry_answers_from_the_record_has_no_span_and_the_retry_is_linked(
    traced: TestPlane, spans: InMemorySpanExporter
) -> None:
    @traced.agent("twice", retry=RetryPolicy(backoff=Backoff(jitter=False)))
    async def twice(ctx: Context) -> None:
        await ctx.step("once", str)
        if ctx.attempt == 1:
            raise ValueError("secret words")

    await traced.submit("twice")
    await traced.work()
    await traced.clock.advance(seconds=10)
    await traced.work()

    first, second = named(spans, "run twice")
    [submit] = named(spans, "submit")
    assert len(named(spans, "step once")) == 1
    assert first.links == ()
    assert [link.context.span_id for link in second.links] == [id_of(submit)]
    assert not first.status.is_ok
    assert "secret words" not in first.to_json()


async def test_a_retry_as_a_new_job_is_linked_to_what_it_retries(traced: TestPlane, spans: InMemorySpanExporter) -> None:
    @traced.agent("echo")
    async def echo(ctx: Context) -> None: ...

    job = await traced.submit("echo")
    await traced.work()
    await traced.jobs.retry(job.id)
    await traced.work()

    [submit] = named(spans, "submit")
    _, second = named(spans, "run echo")
    assert [link.context.span_id for link in second.links] == [id_of(submit)]


async def test_a_caller_in_a_trace_of_its_own_is_the_parent(traced: TestPlane, spans: InMemorySpanExporter) -> None:
    @traced.agent("echo")
    async def echo(ctx: Context) -> None: ...

    await traced.jobs.submit_checked([Submission("echo")], traceparent=CALLER)

    [submit] = named(spans, "submit")
    assert f"{parent_of(submit):016x}" == CALLER.split("-")[2]


async def test_a_traceparent_travels_with_a_job_also_where_nobody_traces(plane: TestPlane) -> None:
    @plane.agent("echo")
    async def echo(ctx: Context) -> None: ...

    plane.telemetry = None
    [kept] = await plane.jobs.submit_checked([Submission("echo")], traceparent=CALLER)
    [dropped] = await plane.jobs.submit_checked([Submission("echo")], traceparent="nonsense")

    runs = plane.store.runs
    assert await runs.trace(kept) == (CALLER, None)
    assert await runs.trace(dropped) == (None, None)


def test_what_is_kept_of_a_trace_is_carried_on() -> None:
    assert carried(CALLER) == CALLER
    assert carried("0af7651916cd43dd8448eb211c80319c") == traceparent_of("0af7651916cd43dd8448eb211c80319c")
    assert carried("0" * 32) is None
    assert carried("x") is None
    assert carried(None) is None


def test_nobody_traces_where_nobody_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    assert telemetry() is None
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    monkeypatch.delitem(sys.modules, "cortex_plane.otel", raising=False)
    assert telemetry() is None
    assert "cortex_plane.otel" not in sys.modules
