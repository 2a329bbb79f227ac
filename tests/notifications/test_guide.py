"""What docs/approvals.md shows, as it stands there."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from cortex_plane.settings import Settings

GUIDE = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text()


def test_every_setting_of_a_channel_is_named() -> None:
    about_channels = ("public_", "telegram_", "discord_", "slack_", "smtp_")
    names = [setting.name for setting in fields(Settings) if setting.name.startswith(about_channels)]

    assert len(names) == 11
    assert [name for name in names if f"`{name}`" not in GUIDE] == []
