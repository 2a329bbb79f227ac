"""Ways to send e-mail: SMTP, Resend, Microsoft Graph. Their libraries are imported when the first e-mail is sent."""

from cortex_plane.adapters.email.graph import GraphTransport
from cortex_plane.adapters.email.resend import ResendTransport
from cortex_plane.adapters.email.smtp import SmtpTransport

__all__ = ["GraphTransport", "ResendTransport", "SmtpTransport"]
