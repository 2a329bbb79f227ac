"""The agent EMAIL_SEND: `await plane.submit("EMAIL_SEND", {"to": "ada@example.com", "subject": "Hello", "text": "…"})`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cortex_plane.audit.model import AuditEntry
from cortex_plane.errors import CortexError
from cortex_plane.integrations.email.model import email_of

if TYPE_CHECKING:
    from cortex_plane.agents.agent import Agent
    from cortex_plane.durable.calls import OnUncertain, Verify
    from cortex_plane.durable.context import Context
    from cortex_plane.integrations.email.model import EmailTransport
    from cortex_plane.plane import Plane


EMAIL_AGENT = "EMAIL_SEND"


def email_agent(
    plane: Plane,
    transport: EmailTransport,
    name: str = EMAIL_AGENT,
    *,
    on_uncertain: OnUncertain | None = None,
    verify: Verify | None = None,
    **options: Any,
) -> Agent[..., dict[str, Any]]:
    """Adds an agent that sends e-mails. `options` are those of `plane.agent`.

    A job takes to, cc, bcc, subject, text, html, reply_to and from, and returns the id of the message.

    Sending is a tool call, so a crash after sending does not send again by accident. When the outcome is unknown,
    `verify(id)` is called; by SMTP the id is that of the Message-ID. Without it `on_uncertain` decides. Its default is
    "rerun" where the service accepts the id as an idempotency key (Resend), and "ask" otherwise (SMTP, Microsoft Graph)."""
    if on_uncertain is None:
        on_uncertain = "rerun" if getattr(transport, "sends_once", False) else "ask"
    doubtful: OnUncertain = on_uncertain

    async def send(ctx: Context, **email: Any) -> dict[str, Any]:
        at = ctx.now()
        count = len(email_of(ctx.job_id, at, email).recipients)

        async def deliver(fields: dict[str, Any], *, invocation_id: str = "") -> dict[str, Any]:
            sent = await transport.send(email_of(invocation_id, at, fields))
            return {"message_id": sent.message_id, "refused": dict(sent.refused)}

        sent = await ctx.tool("send", verify=verify, on_uncertain=doubtful, side_effect=True)(deliver, email)
        refused = sent["refused"]
        output = {"message_id": sent["message_id"], "transport": transport.name, "recipients": count - len(refused)}
        await ctx.step("audit", _record, ctx, output)
        return {**output, "refused": refused}

    async def _record(ctx: Context, details: dict[str, Any]) -> None:
        """Records the number of recipients, without addresses or content. The e-mail is sent, so an error here is only
        logged."""
        try:
            job = await plane.jobs.get(ctx.job_id)
            entry = AuditEntry("EMAIL_SENT", "job", job.id, actor=ctx.agent, tenant_id=job.tenant_id, details=details)
            await plane.store.audit.record([entry])
        except CortexError as error:
            ctx.log.error("email_not_in_audit", error=str(error), **details)

    agent: Agent[..., dict[str, Any]] = plane.agent(name, **options)(send)
    return agent
