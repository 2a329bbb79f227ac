"""Who is asking, and whether they may. Every route declares it: `caller: Annotated[Caller, require(Role.VIEWER)]`.

a key      Authorization: Bearer ctx_…
a cookie   set by POST /api/v1/session; changes then also need the header X-CSRF-Token, or the field csrf_token of a form,
           which other sites cannot know
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Annotated, Any, Protocol

from fastapi import Depends, Header, Query, Request
from fastapi.exceptions import RequestValidationError

from cortex_plane.errors import TenantNotFound
from cortex_plane.http.problems import ForeignPage
from cortex_plane.http_client import client_address
from cortex_plane.jobs.model import DEFAULT_TENANT
from cortex_plane.people.login import limit_tries
from cortex_plane.people.roles import Caller, Credential, NotSignedIn, Role, RoleMissing, digest, holds
from cortex_plane.plane import Plane
from cortex_plane.queues.model import Control, for_one_tenant

COOKIE = "cortex_session"
SECURE_COOKIE = "__Host-cortex_session"
CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf_token"
FORM = "application/x-www-form-urlencoded"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
MOST_WRONG_KEYS = 100
MOST_PROBLEMS = 20

Tenant = Annotated[str | None, Query(max_length=200, description="The tenant that is meant, for those who have several.")]
TenantHeader = Annotated[str | None, Header(max_length=200, description="The same as the parameter `tenant`.")]


class Dependant(Protocol):
    """What a route of FastAPI says of itself in `route.dependant`: all that we read of it."""

    @property
    def call(self) -> Any: ...
    @property
    def dependencies(self) -> Sequence[Dependant]: ...
    @property
    def query_params(self) -> Sequence[Any]: ...


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a route declares. Without a role, being known is enough; `open` is for everybody, and says so; `service` is for
    programs of the installation, and for nobody else (see service_access.py)."""

    role: Role | None = None
    everywhere: bool = False
    open: bool = False
    service: bool = False


def require(role: Role, *, everywhere: bool = False) -> Any:
    """The caller must hold this role in the tenant of the request; with `everywhere`, in all tenants."""
    return _declared(Requirement(role, everywhere))


def known() -> Any:
    """Anybody who is signed in, or has a key."""
    return _declared(Requirement())


async def _anybody(request: Request) -> None:
    refuse_unknown_parameters(request)


_anybody.requirement = Requirement(open=True)  # type: ignore[attr-defined]
anybody: Any = Depends(_anybody)


async def _anybody_by_link() -> None:
    """What programs on the way have added to an address is left alone."""


_anybody_by_link.requirement = Requirement(open=True)  # type: ignore[attr-defined]
anybody_by_link: Any = Depends(_anybody_by_link)


def _declared(requirement: Requirement) -> Any:
    async def check(request: Request, tenant: Tenant = None, x_cortex_tenant: TenantHeader = None) -> Caller:
        credential = await credential_of(request)
        caller = await _in_tenant(request, credential, tenant or x_cortex_tenant)
        request.state.caller, request.state.tenant = caller.name, caller.tenant
        if requirement.role and not caller.may(requirement.role, everywhere=requirement.everywhere):
            raise RoleMissing(requirement.role, everywhere=requirement.everywhere)
        refuse_unknown_parameters(request)
        return caller

    check.requirement = requirement  # type: ignore[attr-defined]
    return Depends(check)


def requirement_in(dependant: Dependant) -> Requirement | None:
    """What a route declares; None when it declares nothing, which is a mistake."""
    found = (getattr(one.call, "requirement", None) for one in _all(dependant))
    return next((one for one in found if one is not None), None)


def _all(dependant: Dependant) -> Iterator[Dependant]:
    for one in dependant.dependencies:
        yield one
        yield from _all(one)


def plane_of(request: Request) -> Plane:
    plane: Plane = request.app.state.plane
    return plane


ThePlane = Annotated[Plane, Depends(plane_of)]


# -- who -----------------------------------------------------------------------------------------
async def credential_of(request: Request) -> Credential:
    """A key or a cookie that works. Whoever sends a key means it: a cookie does not stand in for a wrong one."""
    plane = plane_of(request)
    if "authorization" in request.headers:
        return await _by_key(request, plane)
    token = session_token(request)
    credential = await plane.access.by_session(token) if token else None
    if token is None or credential is None:
        raise NotSignedIn("Sign in, or send an API key: Authorization: Bearer ctx_… To make one: cortex keys add NAME")
    if request.method not in SAFE_METHODS and not await _is_from_our_page(request, token):
        raise ForeignPage
    return credential


async def _by_key(request: Request, plane: Plane) -> Credential:
    scheme, _, key = request.headers["authorization"].partition(" ")
    credential = await plane.access.by_key(key.strip()) if scheme.lower() == "bearer" and key.strip() else None
    if credential is None:
        await limit_tries(plane.store, f"key:from:{address_of(request)}", MOST_WRONG_KEYS)
        raise NotSignedIn("This API key is unknown, revoked or expired. To make one: cortex keys add NAME")
    return credential


def session_token(request: Request) -> str | None:
    """Where cookies are secure, only the one that no other site of the domain, and no connection without TLS, can set."""
    return request.cookies.get(SECURE_COOKIE if request.app.state.secure else COOKIE)


def refuse_other_sites(request: Request) -> None:
    """For signing in, where there is no session yet whose token a form could hold: another site could sign its visitors in under
    an account of its own, and read what they then do there. Programs send neither header."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site not in (None, "same-origin", "none"):
        raise ForeignPage
    if site is None and origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise ForeignPage


def csrf_token(session: str) -> str:
    """Known to whoever may read our answers, which other sites may not. It tells nothing about the cookie."""
    return sha256(f"csrf {session}".encode()).hexdigest()


async def _is_from_our_page(request: Request, session: str) -> bool:
    """By the header, or by a field of a form: a page without script cannot set headers."""
    given = request.headers.get(CSRF_HEADER)
    if given is None and request.headers.get("content-type", "").startswith(FORM):
        given = str((await request.form()).get(CSRF_FIELD, ""))
    return compare_digest((given or "").encode("utf-8", "surrogatepass"), csrf_token(session).encode())


def address_of(request: Request) -> str:
    """Of the caller, not of a proxy that we trust. Whoever is not one cannot choose it."""
    peer = request.client.host if request.client else ""
    return client_address(peer, ",".join(request.headers.getlist("x-forwarded-for")), request.app.state.proxies)


async def _in_tenant(request: Request, credential: Credential, named: str | None) -> Caller:
    """A tenant in which the caller has no role is, for the caller, not there."""
    tenant = named or credential.home or DEFAULT_TENANT
    tenant_id = await plane_of(request).directory.tenant(tenant)
    roles = credential.roles_in(tenant_id)
    if named and not roles and named != credential.tenant:
        raise TenantNotFound(tenant)
    everywhere, made_for = credential.roles_everywhere, credential.made_for
    return Caller(credential.name, tenant, tenant_id, roles, everywhere, credential.user_id, made_for)


def shown_by(request: Request) -> str:
    """By which key or cookie a request came, as a hash."""
    return digest(request.headers.get("authorization") or session_token(request) or "")


async def still_may(request: Request, caller: Caller, role: Role | None) -> bool:
    """Whether the key or cookie of a request that goes on would be let in now, too."""
    access = plane_of(request).access
    if "authorization" in request.headers:
        credential = await access.by_key(request.headers["authorization"].partition(" ")[2].strip())
    else:
        credential = await access.by_session(session_token(request) or "")
    if credential is None:
        return False
    return role is None or holds(credential.roles_in(caller.tenant_id), role)


def seen_by(caller: Caller, control: Control) -> Control:
    return control if caller.may(Role.VIEWER, everywhere=True) else for_one_tenant(control, caller.tenant_id)


# -- parameters ----------------------------------------------------------------------------------
def refuse_unknown_parameters(request: Request) -> None:
    """A filter that is misspelt would otherwise give everything, and nobody would notice."""
    dependant: Dependant = request.scope["route"].dependant
    allowed = {field.alias for one in (dependant, *_all(dependant)) for field in one.query_params}
    given = Counter(name for name, _ in request.query_params.multi_items())
    problems = [_problem(name, "there is no such parameter here") for name in given if name not in allowed]
    problems += [_problem(name, "given more than once") for name in sorted(given) if given[name] > 1]
    if problems:
        raise RequestValidationError(problems[:MOST_PROBLEMS])


def _problem(name: str, message: str) -> dict[str, Any]:
    return {"type": "extra_forbidden", "loc": ("query", name[:80]), "msg": message, "input": None}
