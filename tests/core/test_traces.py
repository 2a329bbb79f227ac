"""Trace context is passed on where it is one, and never a reason to refuse."""

from __future__ import annotations

from uuid import uuid4

import pytest

from cortex_plane.telemetry import trace_from, trace_id_of, traceparent_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("text", "trace"),
    [
        (f"00-{TRACE}-00f067aa0ba902b7-01", TRACE),
        (f"01-{TRACE}-00f067aa0ba902b7-01-more", TRACE),
        (f"ff-{TRACE}-00f067aa0ba902b7-01", None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-00f067aa0ba902b7-01", None),
        ("nonsense", None),
        (None, None),
    ],
)
def test_a_traceparent_names_its_trace(text: str | None, trace: str | None) -> None:
    assert trace_id_of(text) == trace


def test_what_we_send_can_be_read() -> None:
    trace = trace_from(str(uuid4()))

    assert trace_id_of(traceparent_of(trace)) == trace
