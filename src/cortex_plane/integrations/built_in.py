"""Optional agents that come with the plane: EMAIL_SEND and ENGINE_RUN."""

from cortex_plane.integrations.email.agent import email_agent
from cortex_plane.integrations.engine import Workflows, engine_agent

__all__ = ["Workflows", "email_agent", "engine_agent"]
