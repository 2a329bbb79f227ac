"""Values of users, user groups, channel addresses, sessions and tenants, and the check of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NewType

from cortex_plane.costs.model import CostTotal
from cortex_plane.errors import Conflict, InvalidInput, NotFound
from cortex_plane.jobs.model import DEFAULT_TENANT, DEFAULT_TENANT_ID, AgentId, TenantId
from cortex_plane.json import encode
from cortex_plane.queues.model import Control

UserId = NewType("UserId", str)
UserGroupId = NewType("UserGroupId", str)
ChannelId = NewType("ChannelId", str)
SessionId = NewType("SessionId", str)

BUILT_IN_CHANNELS = ("telegram", "discord", "slack", "email", "webhook")

NAME = re.compile(r"[^\s@:/](?:[^\x00-\x1f:/]{0,98}[^\s:/])?")
CHANNEL = re.compile(r"[a-z][a-z0-9_.-]{0,49}")
EMAIL = re.compile(r"[^@\s]++@[^@\s][^@\s.]*+\.[^@\s]++")
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
    owner_id: UserId | None = None
    """The admin who owns this service account; None for a person."""

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
    channel_type: str
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
    tenant_id: TenantId = DEFAULT_TENANT_ID
    ended_at: datetime | None = None


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


def checked_channel_type(name: Any, field: str = "channel_type") -> str:
    if not isinstance(name, str) or not CHANNEL.fullmatch(name):
        raise InvalidInput(
            f"{field} must be 1 to 50 small letters, digits, dots, dashes and underscores, the first a letter, not {name!r:.60}.",
            field=field,
        )
    return name


def checked_channel(channel_type: Any, channel_user_id: Any, registered: Iterable[str] = ()) -> tuple[str, str]:
    """`registered` are the types that this plane has besides the built-in ones. The address itself is not repeated in messages:
    it is personal, and a webhook's may open a door."""
    known = sorted({*BUILT_IN_CHANNELS, *registered})
    if channel_type not in known:
        raise InvalidInput(
            f"channel_type must be one of {', '.join(known)}, not {channel_type!r:.80}. Others are registered by "
            'Plane(channels={"NAME": …}).',
            field="channel_type",
        )
    if not isinstance(channel_user_id, str) or not channel_user_id.strip() or len(channel_user_id) > ADDRESS_LIMIT:
        raise InvalidInput(
            f"channel_user_id must be the person's address or id there, 1 to {ADDRESS_LIMIT} characters.", field="channel_user_id"
        )
    return channel_type, checked_email(channel_user_id) if channel_type == "email" else channel_user_id


class SessionNotFound(NotFound):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session {session_id:.80}. To start one: cortex sessions start")
        self.session_id = session_id


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


# -- tenants -----------------------------------------------------------------------------------
# A tenant: who owns jobs.


class OwnTenant(str):
    """What is meant when nobody named a tenant: `default` on a database; through a server, the tenant of the key."""

    __slots__ = ()


OWN_TENANT = OwnTenant(DEFAULT_TENANT)


@dataclass(frozen=True, slots=True)
class Tenant:
    id: TenantId
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TenantOverview:
    """Finished jobs are not counted: that would read all jobs of everybody."""

    tenant: Tenant
    running: int
    waiting: Mapping[str, int]
    """Queue entries by state: ready, later, blocked, held."""
    costs: Sequence[CostTotal]
    control: Control

    @property
    def spent_cents(self) -> int:
        return sum(total.cents for total in self.costs)


# -- names -------------------------------------------------------------------------------------
# Names that people give to what they store.


NOUN_NAME_LIMIT = 200


def checked_noun_name(value: str, field: str = "name") -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > NOUN_NAME_LIMIT:
        raise InvalidInput(f"{field} must be text of 1 to {NOUN_NAME_LIMIT} characters, not {value!r:.80}.", field=field)
    encode(value, field)
    return value


def checked_readable_name(value: str, field: str = "name") -> str:
    """For what people type again as they see it: no spaces around it, and nothing that does not show."""
    checked_noun_name(value, field)
    if value != value.strip() or not value.isprintable():
        raise InvalidInput(f"{field} must be printable characters without spaces around them, not {value!r:.80}.", field=field)
    return value
