"""The agent EMAIL_SEND: `await plane.submit("EMAIL_SEND", {"to": "ada@example.com", "subject": "Hello", "text": "…"})`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.emails import Email, SentEmail, email_of
from cortex_plane.core.errors import CortexError
from cortex_plane.core.instants import as_datetime

if TYPE_CHECKING:
    from cortex_plane.agents import Agent
    from cortex_plane.plane import Plane
    from cortex_plane.ports.email import EmailTransport
    from cortex_plane.runtime.context import Context

EMAIL_AGENT = "EMAIL_SEND"


def email_agent(plane: Plane, transport: EmailTransport, name: str = EMAIL_AGENT, **options: Any) -> Agent[..., dict[str, Any]]:
    """Adds an agent that sends e-mails. `options` are those of `plane.agent`.

    A job takes to, cc, bcc, subject, text, html, reply_to and from, and answers with the id of the message.
    """

    async def send(ctx: Context, **email: Any) -> dict[str, Any]:
        wanted = email_of(ctx.job_id, as_datetime(plane.clock.now()), email)
        sent = await transport.send(wanted)
        await _record(ctx, wanted, sent)
        return {
            "message_id": sent.message_id,
            "transport": transport.name,
            "recipients": len(wanted.recipients) - len(sent.refused),
            "refused": dict(sent.refused),
        }

    async def _record(ctx: Context, email: Email, sent: SentEmail) -> None:
        """How many got it, not who, nor what it says. Failing here would send it a second time, so that is only logged."""
        details = {
            "recipients": len(email.recipients) - len(sent.refused),
            "transport": transport.name,
            "message_id": sent.message_id,
        }
        try:
            job = await plane.get(ctx.job_id)
            entry = AuditEntry("EMAIL_SENT", "job", job.id, actor=ctx.agent, tenant_id=job.tenant_id, details=details)
            await (await plane.store).audit.record([entry])
        except CortexError as error:
            ctx.log.error("email_not_in_audit", error=str(error), **details)

    agent: Agent[..., dict[str, Any]] = plane.agent(name, **options)(send)
    return agent
