"""Stores accounts, API keys and logins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cortex_plane.jobs.model import TenantId
from cortex_plane.json import dumps, loads
from cortex_plane.people.model import UserId
from cortex_plane.people.roles import Account, ApiKey, ApiKeyId, Credential, GivenRole, NewApiKey, Role, signer_name, within
from cortex_plane.storage import rows
from cortex_plane.storage.transactions import Transaction, query

if TYPE_CHECKING:
    from cortex_plane.audit.model import AuditEntry
    from cortex_plane.storage.database import Database, Row


class ApiKeyStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: NewApiKey, entry: AuditEntry) -> None:
        """The same id a second time is the same key with a new secret: nobody has been shown the first."""
        await self._database.transact(lambda: _add_key(key, entry))

    async def credential(self, digest: str) -> Credential | None:
        """Whose key it is; None when it is unknown, revoked or expired, or its user is disabled. Its use is noted, to the
        minute, so that a busy key is not written for each request."""
        found = await self._database.read("access/key", hash=digest)
        if not found:
            return None
        row = found[0]
        if row["is_stale"]:
            await self._database.write("access/key_used", hash=digest)
        tenant_id, user_id = _tenant_id(row), rows.text_or_none(row["user_account_id"])
        given = tuple(GivenRole(Role(role), tenant_id, row["tenant"]) for role in loads(row["roles"]))
        if user_id is not None:
            given = within(given, _given_to_owner(found))
        name = f"user:{row['user_name']}" if _is_personal(row) else f"key:{row['prefix']}"
        made_for = frozenset(Role(role) for role in loads(row["roles"]))
        return Credential(name, given, user_id, made_for, row["tenant"])

    async def revoke(self, key_id: ApiKeyId, entry: AuditEntry) -> bool:
        """False when it was revoked already; then nothing is recorded."""
        return await self._database.transact(lambda: _revoke_key(key_id, entry))

    async def list(self, tenant_id: TenantId | None = None) -> list[ApiKey]:
        """All keys, or those of one tenant, oldest first; those that no longer work, too."""
        return [_key(row) for row in await self._database.read("access/list_keys", tenant_id=tenant_id)]


class AccountStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, user_id: UserId, name: str, display_name: str | None, email: str | None, entry: AuditEntry) -> bool:
        """False when the name is taken; then nothing is recorded."""
        return await self._database.transact(lambda: _add_account(user_id, name, display_name, email, entry))

    async def find(self, name: str) -> Account | None:
        found = await self._database.read("accounts/find", name=name)
        return _account(found) if found else None

    async def password(self, user_id: UserId) -> str | None:
        """The hash of their password; None when they have none, or are disabled."""
        for row in await self._database.read("accounts/password", id=user_id):
            return str(row["hash"])
        return None

    async def set_password(self, user_id: UserId, password_hash: str, entry: AuditEntry | None) -> None:
        """Ends all their sign-ins, unless there is no entry: then the same password was only hashed anew."""
        await self._database.transact(lambda: _set_password(user_id, password_hash, entry))

    async def give_role(self, user_id: UserId, role: Role, tenant_id: TenantId | None, entry: AuditEntry) -> bool:
        """False when they had it; then nothing is recorded."""
        return await self._database.transact(lambda: _change_role("accounts/give_role", user_id, role, tenant_id, entry))

    async def take_role(self, user_id: UserId, role: Role, tenant_id: TenantId | None, entry: AuditEntry) -> bool:
        return await self._database.transact(lambda: _change_role("accounts/take_role", user_id, role, tenant_id, entry))


class SignInStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, digest: str, user_id: UserId, ttl_seconds: float, entry: AuditEntry) -> bool:
        """False, and nothing is added, when the account is disabled."""
        return await self._database.transact(lambda: _open_sign_in(digest, user_id, ttl_seconds, entry))

    async def credential(self, digest: str) -> Credential | None:
        """Who is signed in; None when the cookie is unknown or expired, or the user is disabled. Its use is noted, to the
        minute."""
        found = await self._database.read("access/sign_in", hash=digest)
        if not found:
            return None
        if found[0]["is_stale"]:
            await self._database.write("access/sign_in_used", hash=digest)
        return Credential(f"user:{found[0]['name']}", _given(found), UserId(str(found[0]["id"])))

    async def remove(self, digest: str) -> bool:
        return bool(await self._database.write("access/close_sign_in", hash=digest))


# -- scripts -------------------------------------------------------------------------------------
def _record(entry: AuditEntry) -> Transaction[None]:
    yield from query("audit/record", entries=dumps([entry.to_json()]))


def _add_key(key: NewApiKey, entry: AuditEntry) -> Transaction[None]:
    if (yield from query("access/reissue_key", id=key.id, prefix=key.prefix, hash=key.hash)):
        yield from _record(replace(entry, action="API_KEY_REISSUED"))
        return
    yield from query(
        "access/add_key",
        id=key.id,
        tenant_id=key.tenant_id,
        name=key.name,
        prefix=key.prefix,
        hash=key.hash,
        roles=dumps(list(key.roles)),
        user_id=key.user_id,
        created_by=key.created_by,
        ttl_seconds=key.ttl_seconds,
    )
    yield from _record(entry)


def _revoke_key(key_id: ApiKeyId, entry: AuditEntry) -> Transaction[bool]:
    if not (yield from query("access/revoke_key", id=key_id)):
        return False
    yield from _record(entry)
    return True


def _add_account(user_id: UserId, name: str, display_name: str | None, email: str | None, entry: AuditEntry) -> Transaction[bool]:
    if not (yield from query("accounts/add", id=user_id, name=name, display_name=display_name, email=email)):
        return False
    yield from _record(entry)
    return True


def _set_password(user_id: UserId, password_hash: str, entry: AuditEntry | None) -> Transaction[None]:
    yield from query("accounts/set_password", id=user_id, hash=password_hash)
    if entry is not None:
        yield from query("accounts/sign_out", id=user_id)
        yield from _record(entry)


def _change_role(statement: str, user_id: UserId, role: Role, tenant_id: TenantId | None, entry: AuditEntry) -> Transaction[bool]:
    if not (yield from query(statement, id=user_id, role=role.value, tenant_id=tenant_id)):
        return False
    yield from _record(entry)
    return True


def _open_sign_in(digest: str, user_id: UserId, ttl_seconds: float, entry: AuditEntry) -> Transaction[bool]:
    if not (yield from query("access/open_sign_in", hash=digest, user_id=user_id, ttl_seconds=ttl_seconds)):
        return False
    yield from _record(entry)
    return True


# -- rows ----------------------------------------------------------------------------------------
def _tenant_id(row: Row) -> TenantId | None:
    return None if row["tenant_id"] is None else TenantId(str(row["tenant_id"]))


def _given(found: Sequence[Row]) -> tuple[GivenRole, ...]:
    return tuple(GivenRole(Role(row["role"]), _tenant_id(row), row["tenant"]) for row in found if row["role"] is not None)


def _given_to_owner(found: Sequence[Row]) -> tuple[GivenRole, ...]:
    return tuple(
        GivenRole(Role(row["role"]), rows.text_or_none(row["role_tenant_id"]), row["role_tenant"])
        for row in found
        if row["role"] is not None
    )


def _is_personal(row: Row) -> bool:
    """The key of a person, made by nobody else: then what is done with it is that person's own doing."""
    if row["user_account_id"] is None or row["owner_id"] is not None:
        return False
    return row["created_by"] is None or signer_name(row["created_by"]) == row["user_name"]


def _account(found: Sequence[Row]) -> Account:
    row = found[0]
    return Account(
        id=UserId(str(row["id"])),
        name=row["name"],
        display_name=row["display_name"],
        email=row["email"],
        created_at=rows.moment(row["created_at"]),
        disabled_at=rows.moment_or_none(row["disabled_at"]),
        owner_id=rows.text_or_none(row["owner_id"]),
        given=_given(found),
    )


def _key(row: Row) -> ApiKey:
    return ApiKey(
        id=ApiKeyId(str(row["id"])),
        name=row["name"],
        prefix=row["prefix"],
        roles=tuple(Role(role) for role in loads(row["roles"])),
        tenant_id=_tenant_id(row),
        tenant=row["tenant"],
        user_id=rows.text_or_none(row["user_account_id"]),
        created_by=row["created_by"],
        created_at=rows.moment(row["created_at"]),
        last_used_at=rows.moment_or_none(row["last_used_at"]),
        expires_at=rows.moment_or_none(row["expires_at"]),
        revoked_at=rows.moment_or_none(row["revoked_at"]),
    )
