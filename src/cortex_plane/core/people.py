"""People: who decides, in which groups, how they are reached, and the conversations that they started jobs from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NewType, get_args

from cortex_plane.core.errors import Conflict, InvalidInput, NotFound
from cortex_plane.core.jobs import AgentId, TenantId

UserId = NewType("UserId", str)
UserGroupId = NewType("UserGroupId", str)
ChannelId = NewType("ChannelId", str)
SessionId = NewType("SessionId", str)

ChannelType = Literal["telegram", "discord", "slack", "email", "webhook"]

NAME = re.compile(r"[^\s@:/](?:[^\x00-\x1f:/]{0,98}[^\s:/])?")
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
NAME_LIMIT = 100
ADDRESS_LIMIT = 500


@dataclass(frozen=True, slots=True)
class User:
    """`name` is what they sign in with and what audit entries call them."""

    id: UserId
    name: str
    display_name: str | None = None
    email: str | None = None
    created_at: datetime | None = None
    disabled_at: datetime | None = None

    @property
    def label(self) -> str:
        """What others are shown."""
        return self.display_name or self.name


@dataclass(frozen=True, slots=True)
class UserGroup:
    """People who may be asked together."""

    id: UserGroupId
    tenant_id: TenantId
    name: str
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LinkedChannel:
    """One address at which one person is reached."""

    id: ChannelId
    user_account_id: UserId
    channel_type: ChannelType
    channel_user_id: str
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """The conversation or request that started jobs: its user is asked where a gate names nobody."""

    id: SessionId
    user_account_id: UserId
    agent_id: AgentId | None = None
    channel: str | None = None
    created_at: datetime | None = None


def checked_name(name: Any, field: str = "name") -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidInput(
            f"{field} must be 1 to {NAME_LIMIT} characters without colons, slashes and line breaks, and not begin with "
            f"a space or an @; not {name!r:.80}.",
            field=field,
        )
    return name


def checked_email(email: Any) -> str:
    if not isinstance(email, str) or len(email) > ADDRESS_LIMIT or not EMAIL.fullmatch(email):
        raise InvalidInput(f"email must be an address such as alice@example.com, not {email!r:.80}.", field="email")
    return email


def checked_channel(channel_type: Any, channel_user_id: Any) -> tuple[ChannelType, str]:
    """The address itself is not repeated in messages: it is personal, and a webhook's may open a door."""
    if channel_type not in get_args(ChannelType):
        known = ", ".join(get_args(ChannelType))
        raise InvalidInput(f"channel_type must be one of {known}, not {channel_type!r:.80}.", field="channel_type")
    if not isinstance(channel_user_id, str) or not channel_user_id.strip() or len(channel_user_id) > ADDRESS_LIMIT:
        raise InvalidInput(
            f"channel_user_id must be the person's address or id there, 1 to {ADDRESS_LIMIT} characters.", field="channel_user_id"
        )
    chosen: ChannelType = channel_type
    return chosen, checked_email(channel_user_id) if chosen == "email" else channel_user_id


class UserNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f'There is no user "{name}".')
        self.name = name


class UserExists(Conflict):
    def __init__(self, name: str) -> None:
        super().__init__(f'There is a user "{name}" already. Choose another name.')
        self.name = name


class UserGroupNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f'There is no group of people "{name}" in this tenant.')
        self.name = name


class UserGroupExists(Conflict):
    def __init__(self, name: str) -> None:
        super().__init__(f'There is a group of people "{name}" in this tenant already. Choose another name.')
        self.name = name


class ChannelTaken(Conflict):
    """Whose it is, is not told: only its owner may know."""

    def __init__(self, channel_type: str) -> None:
        super().__init__(f"That {channel_type} address is linked already. Unlink it first.")
        self.channel_type = channel_type


class ChannelNotFound(NotFound):
    def __init__(self, channel_id: str) -> None:
        super().__init__(f"There is no linked channel {channel_id}.")
        self.channel_id = channel_id
