"""Ways to reach approvers: Telegram, Discord, Slack, e-mail, webhooks."""

from cortex_plane.adapters.channels.discord import DiscordChannel
from cortex_plane.adapters.channels.email import EmailChannel
from cortex_plane.adapters.channels.slack import SlackChannel
from cortex_plane.adapters.channels.telegram import TelegramChannel
from cortex_plane.adapters.channels.webhook import WebhookChannel

__all__ = ["DiscordChannel", "EmailChannel", "SlackChannel", "TelegramChannel", "WebhookChannel"]
