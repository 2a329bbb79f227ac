"""What a caller may say about one submission, besides its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

from cortex_plane.core.jobs import KeyMode
from cortex_plane.core.retry import RetryPolicy


class SubmitOptions(TypedDict, total=False):
    queue: str
    priority: int
    run_at: datetime
    delay: float | timedelta
    job_key: str
    key_mode: KeyMode
    serial_key: str
    tenant: str
    tags: Sequence[str]
    max_retries: int
    retry: RetryPolicy
    timeout: float | timedelta
    created_by: str
    session: str
    cancel_with_parent: bool
    connection: Any
