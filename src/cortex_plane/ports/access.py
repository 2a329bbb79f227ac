"""Who may do what, as it is stored: keys, accounts, sign-ins; and what any number of servers must know in common."""

from __future__ import annotations

from typing import Protocol

from cortex_plane.core.access import Account, ApiKey, ApiKeyId, Credential, NewApiKey, Role
from cortex_plane.core.audit import AuditEntry
from cortex_plane.core.http_requests import Beginning, RequestKey
from cortex_plane.core.jobs import TenantId
from cortex_plane.core.people import UserId


class ApiKeys(Protocol):
    async def add(self, key: NewApiKey, entry: AuditEntry) -> None:
        """The same id a second time is the same key with a new secret: nobody has been shown the first."""

    async def credential(self, digest: str) -> Credential | None:
        """Whose key it is; None when it is unknown, revoked or expired, or its user is disabled. Its use is noted, to the
        minute, so that a busy key is not written for each request."""

    async def revoke(self, key_id: ApiKeyId, entry: AuditEntry) -> bool:
        """False when it was revoked already; then nothing is recorded."""

    async def list(self, tenant_id: TenantId | None = None) -> list[ApiKey]:
        """All keys, or those of one tenant, oldest first; those that no longer work, too."""


class Accounts(Protocol):
    async def add(self, user_id: UserId, name: str, display_name: str | None, email: str | None, entry: AuditEntry) -> bool:
        """False when the name is taken; then nothing is recorded."""

    async def find(self, name: str) -> Account | None: ...

    async def password(self, user_id: UserId) -> str | None:
        """The hash of their password; None when they have none, or are disabled."""

    async def set_password(self, user_id: UserId, password_hash: str, entry: AuditEntry | None) -> None:
        """Ends all their sign-ins, unless there is no entry: then the same password was only hashed anew."""

    async def give_role(self, user_id: UserId, role: Role, tenant_id: TenantId | None, entry: AuditEntry) -> bool:
        """False when they had it; then nothing is recorded."""

    async def take_role(self, user_id: UserId, role: Role, tenant_id: TenantId | None, entry: AuditEntry) -> bool: ...


class SignIns(Protocol):
    async def add(self, digest: str, user_id: UserId, ttl_seconds: float, entry: AuditEntry) -> None: ...

    async def credential(self, digest: str) -> Credential | None:
        """Who is signed in; None when the cookie is unknown or expired, or the user is disabled. Its use is noted, to the
        minute."""

    async def remove(self, digest: str) -> bool: ...


class HttpState(Protocol):
    """What all servers of one database share, so that any of them can answer any request."""

    async def hit(self, bucket: str, window_seconds: float) -> tuple[int, float]:
        """Counts one more; returns how many there were in this window, and the seconds until the next."""

    async def begin(self, request: RequestKey, request_hash: str, seed: str) -> Beginning: ...

    async def answer(self, request: RequestKey, seed: str, status: int, body: str) -> None: ...

    async def forget(self, request: RequestKey, seed: str) -> None:
        """It came to nothing and may be sent again."""

    async def sweep(self) -> None:
        """Deletes what has expired: sign-ins, windows, answers."""

    async def has_credentials(self) -> bool:
        """Whether anybody could get in: a key that works, or a user with a password and a role."""
