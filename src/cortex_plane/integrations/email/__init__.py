"""Ways to send e-mail: SMTP, Resend, Microsoft Graph. Their libraries are imported when the first e-mail is sent."""

from cortex_plane.integrations.email.transports import GraphTransport, ResendTransport, SmtpTransport

__all__ = ["GraphTransport", "ResendTransport", "SmtpTransport"]
