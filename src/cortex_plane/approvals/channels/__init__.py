"""Ways to reach approvers: Telegram, Discord, Slack, e-mail, webhooks."""

from cortex_plane.approvals.channels.discord import DiscordChannel
from cortex_plane.approvals.channels.email import EmailChannel
from cortex_plane.approvals.channels.slack import SlackChannel
from cortex_plane.approvals.channels.telegram import TelegramChannel
from cortex_plane.approvals.channels.webhook import WebhookChannel

__all__ = ["DiscordChannel", "EmailChannel", "SlackChannel", "TelegramChannel", "WebhookChannel"]
