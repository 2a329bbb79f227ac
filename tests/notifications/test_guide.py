"""What docs/approvals.md shows, as it stands there."""

from __future__ import annotations

import re
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cortex_plane.settings import Settings
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio

GUIDE = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text()


async def test_the_example_links_a_person(plane: TestPlane) -> None:
    [example] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    scope: dict[str, Any] = {"plane": plane}
    exec(f"async def example():\n{textwrap.indent(example, '    ')}", scope)

    await scope["example"]()

    alice = await (await plane.store).people.find_user("alice")
    assert alice is not None
    linked = await (await plane.store).people.channels(alice.id)
    assert {(channel.channel_type, channel.channel_user_id) for channel in linked} == {
        ("telegram", "987654321"),
        ("email", "alice@example.com"),
    }


def test_every_setting_of_a_channel_is_named() -> None:
    about_channels = ("public_", "telegram_", "discord_", "slack_", "smtp_")
    names = [setting.name for setting in fields(Settings) if setting.name.startswith(about_channels)]

    assert len(names) == 11
    assert [name for name in names if f"`{name}`" not in GUIDE] == []
