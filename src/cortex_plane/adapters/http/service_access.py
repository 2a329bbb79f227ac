"""Which program of the installation is calling, for routes that are not for people: `caller: Annotated[…, service()]`.

a secret   Authorization: Bearer CORTEX_INTERNAL_API_TOKEN, or the other one while they are exchanged
a token    Authorization: Bearer eyJ…, a JWT that was signed for this service and has not expired

How often each may call is counted in the database, so that any number of servers count together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Annotated, Any

import structlog
from fastapi import Depends, Header, Request

from cortex_plane.adapters.http.access import Requirement, address_of, plane_of, refuse_unknown_parameters
from cortex_plane.adapters.service_tokens import subject_of
from cortex_plane.core.access import digest
from cortex_plane.core.instants import Instant
from cortex_plane.core.service_calls import ServiceCaller, TooManyRequests, UnknownService
from cortex_plane.operations.sign_in import limit_tries
from cortex_plane.ports.store import Store
from cortex_plane.settings import Settings

log = structlog.get_logger()

MOST_WRONG_SECRETS = 100
WINDOW_SECONDS = 1.0

ServiceName = Annotated[
    str | None, Header(max_length=200, description="Who calls, in its own words: it is logged, not believed.")
]


@dataclass(frozen=True, slots=True)
class ServiceKeys:
    """What callers of the execution service may show. Without any of them, nobody gets in."""

    secrets: tuple[str, ...] = field(repr=False)
    signing_secrets: tuple[str, ...] = field(repr=False)
    audience: str
    requests_per_second: int

    def caller(self, shown: str, said_name: str | None, now: Instant) -> ServiceCaller | None:
        """All secrets are compared, as hashes of one length and to their end: how long that takes tells nothing."""
        if sum(compare_digest(digest(shown), digest(secret)) for secret in self.secrets):
            return ServiceCaller("service:secret", f"service:{digest(shown)}", said_name)
        subject = subject_of(shown, self.signing_secrets, self.audience, now)
        if subject is None:
            return None
        return ServiceCaller(f"service:jwt:{subject[:100]}", f"service:jwt:{digest(subject)}", subject[:200])


def service_keys(settings: Settings) -> ServiceKeys:
    secrets = (settings.internal_api_token, settings.internal_api_other_token)
    signing = (settings.internal_jwt_secret, settings.internal_jwt_other_secret)
    return ServiceKeys(
        tuple(one for one in secrets if one),
        tuple(one for one in signing if one),
        settings.internal_jwt_audience,
        settings.internal_api_requests_per_second,
    )


async def _service(request: Request, x_service_name: ServiceName = None) -> ServiceCaller:
    plane, keys = plane_of(request), _keys_of(request)
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    known = keys.caller(shown.strip(), x_service_name, plane.clock.now()) if scheme.lower() == "bearer" else None
    store = await plane.store
    if known is None:
        if "authorization" in request.headers:
            await limit_tries(store, f"service:from:{address_of(request)}", MOST_WRONG_SECRETS)
        raise UnknownService
    request.state.caller = known.name
    log.info("service.called", caller=known.name, said_to_be=x_service_name, route=request.scope["route"].path)
    await _limit(store, known, keys.requests_per_second)
    refuse_unknown_parameters(request)
    return known


_service.requirement = Requirement(service=True)  # type: ignore[attr-defined]


def service() -> Any:
    """Only programs of the installation that know its secret; no key and no session of anybody."""
    return Depends(_service)


async def _limit(store: Store, caller: ServiceCaller, most: int) -> None:
    hits, seconds_left = await store.http.hit(caller.bucket, WINDOW_SECONDS)
    if hits > most:
        raise TooManyRequests(most, seconds_left)


def _keys_of(request: Request) -> ServiceKeys:
    keys: ServiceKeys = request.app.state.service_keys
    return keys
