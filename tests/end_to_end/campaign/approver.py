"""One of the workers of the campaign of approvals: asks, tells, reminds, expires, until it is killed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import structlog

from cortex_plane import Context, Plane, Settings
from cortex_plane.approvals.channels import EmailChannel
from cortex_plane.integrations.email import SmtpTransport
from cortex_plane.integrations.email.model import mail_server
from cortex_plane.worker import heartbeat
from tests.end_to_end.campaign.clock import SharedClock
from tests.end_to_end.campaign.worker import LEASE_SECONDS, Mortality

BEAT_SECONDS = 0.2

# What a worker does with a message that it sends, and with a request that is due.
WRITES = (
    ("approvals", "put_token"),
    ("approvals", "record_notification"),
    ("approvals", "remind"),
    ("approvals", "_expire"),
    ("queue", "finish"),
)


def register_agents(plane: Plane) -> None:
    @plane.agent("deploy", crash_limit=1000)
    async def deploy(ctx: Context, number: int, approvers: list[str], ttl: float, remind: float) -> str:
        gate = f"Deploy {number} to production"
        return (await ctx.approval(gate, approvers=approvers, ttl=ttl, remind=remind, on_expiry="default", default=None)).outcome


def impatient_mail(settings: Settings, clock: SharedClock) -> EmailChannel:
    """As the settings say, but it waits for no answer longer than a turn of the campaign may take."""
    server = mail_server(settings.smtp_url)
    transport = SmtpTransport(server.host, server.sender, server.port, server.username, server.password, server.tls, 3.0)
    return EmailChannel(transport, clock)


async def main(url: str, clock: str, name: str, settings: dict[str, Any]) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    heartbeat.BEATS_IN_A_LEASE = LEASE_SECONDS / BEAT_SECONDS  # type: ignore[assignment]
    files = str(Path(clock).parent / "files")
    chosen = Settings(database_url=url, lease_seconds=LEASE_SECONDS, data_dir=files, **settings)
    shared = SharedClock(Path(clock))
    plane = Plane(settings=chosen, clock=shared, channels={"email": impatient_mail(chosen, shared)})
    register_agents(plane)
    async with plane:
        Mortality(plane.store, WRITES)
        await plane.run_worker(name=name)
