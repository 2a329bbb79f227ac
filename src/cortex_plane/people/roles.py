"""Who may do what: roles, keys of programs, people who sign in, and what each may do in which tenant.

viewer < submitter < operator < admin: each may do what those before it may. An approver decides, and nothing else.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import NewType

from cortex_plane.errors import Conflict, CortexError, Denied, InvalidInput, NotFound, did_you_mean
from cortex_plane.jobs.model import TenantId
from cortex_plane.people.model import UserId

ApiKeyId = NewType("ApiKeyId", str)

KEY_PREFIX = "ctx_"
KEY_BYTES = 38
SHOWN_CHARACTERS = 12
"""So many of a key are stored and shown, to know it by; the rest is 256 bits of chance and more."""
SESSION_BYTES = 32
SHORTEST_PASSWORD, LONGEST_PASSWORD = 10, 1_000


class Role(StrEnum):
    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"


LADDER = (Role.VIEWER, Role.SUBMITTER, Role.OPERATOR, Role.ADMIN)


@dataclass(frozen=True, slots=True)
class GivenRole:
    """A role without a tenant holds in all of them."""

    role: Role
    tenant_id: TenantId | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Credential:
    """Somebody who proved who they are. `name` is how they sign what they do."""

    name: str
    given: tuple[GivenRole, ...]
    user_id: UserId | None = None
    made_for: frozenset[Role] = frozenset()
    """Of a key: its roles as it was made, whatever its owner has now. One that was made for `approver` decides what its owner may
    decide, who may also be asked by name."""
    tenant: str | None = None
    """Of a key that works in one tenant: which."""

    def roles_in(self, tenant_id: TenantId) -> frozenset[Role]:
        return frozenset(given.role for given in self.given if given.tenant_id in (None, tenant_id))

    @property
    def roles_everywhere(self) -> frozenset[Role]:
        return frozenset(given.role for given in self.given if given.tenant_id is None)

    @property
    def home(self) -> str | None:
        """The tenant that they mean when they name none; None is the default one."""
        if self.roles_everywhere or self.tenant is not None:
            return self.tenant
        return min((given.tenant for given in self.given if given.tenant), default=None)


@dataclass(frozen=True, slots=True)
class Caller:
    """A credential in the tenant that a request is about."""

    name: str
    tenant: str
    tenant_id: TenantId
    roles: frozenset[Role]
    everywhere: frozenset[Role] = frozenset()
    user_id: UserId | None = None
    made_for: frozenset[Role] = frozenset()

    def may(self, needed: Role, *, everywhere: bool = False) -> bool:
        return holds(self.everywhere if everywhere else self.roles, needed)


def holds(roles: Iterable[Role], needed: Role) -> bool:
    if needed not in LADDER:
        return needed in roles
    return any(role in LADDER and LADDER.index(role) >= LADDER.index(needed) for role in roles)


def within(asked: Iterable[GivenRole], held: Sequence[GivenRole]) -> tuple[GivenRole, ...]:
    """What both have: a key may do what it says, where its owner may do so now, and no more.

    Along the ladder the lower of the two counts: the operator's key of somebody who is a viewer by now is a viewer's."""
    common = {
        one: None
        for wanted in asked
        for owned in held
        if (role := _lower(wanted.role, owned.role)) is not None
        if (one := _where_both(role, wanted, owned)) is not None
    }
    return tuple(common)


def _lower(one: Role, other: Role) -> Role | None:
    if one in LADDER and other in LADDER:
        return min(one, other, key=LADDER.index)
    return one if one == other else None


def _where_both(role: Role, one: GivenRole, other: GivenRole) -> GivenRole | None:
    if one.tenant_id is None:
        return GivenRole(role, other.tenant_id, other.tenant)
    return GivenRole(role, one.tenant_id, one.tenant) if other.tenant_id in (None, one.tenant_id) else None


def signer_name(signature: str) -> str:
    """The name of whoever signs as `user:NAME` or `cli:NAME`."""
    for kind in ("user:", "cli:"):
        if signature.startswith(kind):
            return signature.removeprefix(kind)
    return signature


def check_roles(names: Sequence[str]) -> tuple[Role, ...]:
    if isinstance(names, str) or not names:
        raise InvalidInput(f"roles must be a list of at least one of: {', '.join(Role)}.", field="roles")
    for name in names:
        if name not in list(Role):
            close = did_you_mean(name, Role) if isinstance(name, str) else ""
            raise InvalidInput(f"There is no role {name!r:.60}.{close} Known: {', '.join(Role)}.", field="roles")
    return tuple(dict.fromkeys(Role(name) for name in names))


# -- keys of programs ----------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class NewApiKey:
    """A checked wish for a key. The key itself is nowhere in here: it is shown once, and only its hash is kept."""

    id: ApiKeyId
    name: str
    prefix: str
    hash: str = field(repr=False)
    roles: tuple[Role, ...] = ()
    tenant_id: TenantId | None = None
    user_id: UserId | None = None
    created_by: str | None = None
    ttl_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as people see it. A key without a tenant works in all of them."""

    id: ApiKeyId
    name: str
    prefix: str
    roles: tuple[Role, ...]
    tenant_id: TenantId | None
    tenant: str | None
    user_id: UserId | None
    created_by: str | None
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class AddedKey:
    """`secret` is the whole key. Nobody can ask for it again."""

    key: ApiKey
    secret: str = field(repr=False)


def new_key(random_bytes: bytes) -> str:
    return KEY_PREFIX + secret_text(random_bytes)


def secret_text(random_bytes: bytes) -> str:
    return urlsafe_b64encode(random_bytes).decode().rstrip("=")


def digest(secret: str) -> str:
    """What is stored of a key or a cookie. They are long and random, so that a plain hash cannot be turned back."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


# -- people --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Account:
    """A person as far as signing in goes."""

    id: UserId
    name: str
    display_name: str | None
    email: str | None
    created_at: datetime
    disabled_at: datetime | None
    given: tuple[GivenRole, ...] = ()
    owner_id: UserId | None = None
    """The admin who owns this service account; None for a person."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """`token` is the cookie. Only its hash is kept."""

    account: Account
    token: str = field(repr=False)
    ttl_seconds: float


def check_password(password: str) -> str:
    if not isinstance(password, str) or not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InvalidInput(
            f"password must have {SHORTEST_PASSWORD} to {LONGEST_PASSWORD:,} characters. A few unrelated words do well.",
            field="password",
        )
    return password


class NotSignedIn(CortexError):
    """Nobody, or nobody whom we know."""


class WrongPassword(NotSignedIn):
    """The same words whether the name or the password is wrong: the difference would tell names."""

    def __init__(self) -> None:
        super().__init__("There is no such user, or the password is wrong.")


class TooManyTries(CortexError):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"That was tried too often. Try again in {max(1, round(seconds))} s.")
        self.seconds = seconds


class TooManySignIns(TooManyTries):
    """Of everybody together, at this moment."""

    def __init__(self, seconds: float) -> None:
        CortexError.__init__(self, f"Too many people sign in at this moment. Try again in {max(1, round(seconds))} s.")
        self.seconds = seconds


class TooManyStreams(TooManyTries):
    def __init__(self, most: int, whose: str) -> None:
        seconds = 5.0
        CortexError.__init__(self, f"{most} event streams {whose} are open already. Close one, or try again in {seconds:g} s.")
        self.seconds = seconds


class RoleMissing(Denied):
    def __init__(self, needed: Role, *, everywhere: bool) -> None:
        where = " in all tenants" if everywhere else ""
        super().__init__(f'This needs the role "{needed}"{where}. An admin gives roles: cortex keys add, cortex users add-role')
        self.needed = needed


class ApiKeyNotFound(NotFound):
    def __init__(self, wanted: str) -> None:
        super().__init__(f"There is no API key {wanted}. To see what there is: cortex keys list")


class AccountNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f'There is no user "{name}". To add one: cortex users add NAME')


class AccountExists(Conflict):
    def __init__(self, name: str) -> None:
        super().__init__(f'There is a user "{name}" already. To change the password: cortex users password NAME')
