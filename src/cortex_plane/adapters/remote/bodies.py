"""What we ask for, as the API wants it: names of its own for times and spans, and nothing that was not asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.retry import RetryPolicy
from cortex_plane.operations.submit_jobs import Submission

NOT_SENT = ("created_by", "tenant")
"""Through a server both follow from the key and from the address."""
NOT_TAKEN = ("connection", "session", "cancel_with_parent")


def submission_body(asked: Submission) -> dict[str, Any]:
    fields = {name: getattr(asked, name) for name in Submission.__slots__}
    return job_body(fields)


def job_body(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Of the options of a submission, by their names in Python."""
    for name in NOT_TAKEN:
        if asked.get(name):
            raise InvalidInput(f"{name} cannot be given through a server.", field=name)
    spans = {"delay": "delay_seconds", "timeout": "timeout_seconds"}
    return {
        spans.get(name, name): _plain(value)
        for name, value in asked.items()
        if value is not None and name not in NOT_SENT + NOT_TAKEN
    }


def given(**values: Any) -> dict[str, Any]:
    """Without what is None."""
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case timedelta():
            return value.total_seconds()
        case RetryPolicy():
            return asdict(value)
        case tuple() | list():
            return [_plain(one) for one in value]
        case Mapping():
            return dict(value)
        case _:
            return value
