"""A creating request that is sent twice is carried out once: by `Idempotency-Key`, on whichever server it arrives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256
from itertools import count
from typing import Annotated, Any

from fastapi import Header, Request, Response
from pydantic import TypeAdapter

from cortex_plane.errors import CortexError, Unavailable
from cortex_plane.http.auth import plane_of
from cortex_plane.ids import NewId
from cortex_plane.json import dumps, loads
from cortex_plane.people.roles import Caller
from cortex_plane.storage.http_state import (
    AnotherBody,
    Answered,
    Begun,
    IdempotencyKeyReused,
    RequestKey,
    RequestUnderWay,
    UnderWay,
    check_key,
    derived_id,
)

IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern="^[!-~]{1,255}$", description="A name for this request; sent again under it within a day, it has the same answer."
    ),
]
REPLAYED = "Idempotency-Replayed"


async def created(
    request: Request,
    caller: Caller,
    key: str | None,
    kind: Any,
    work: Callable[[NewId], Awaitable[Any]],
    *,
    location: str | None = None,
    secret: str | None = None,
) -> Response:
    """Answers 201 with what `work` makes. Ids that it takes from the one it is given are the same when it must be repeated.
    A field named by `secret` is answered once, and not kept."""
    if key is None:
        return _response(201, TypeAdapter(kind).dump_json(await work(plane_of(request)._ids)), location)
    state = plane_of(request).store.http
    known = RequestKey(caller.tenant_id, caller.name, check_key(key))
    match await state.begin(known, await _hash(request), plane_of(request)._ids()):
        case Answered(status, kept):
            return _response(status, kept.encode(), location, {REPLAYED: "true"})
        case AnotherBody():
            raise IdempotencyKeyReused
        case UnderWay():
            raise RequestUnderWay
        case Begun(seed):
            try:
                body = TypeAdapter(kind).dump_json(await work(_ids_from(seed)))
            except Unavailable:
                raise  # Nobody knows whether it was done. The seed is kept, so that doing it again makes the same ids.
            except CortexError:
                await state.forget(known, seed)
                raise
            await state.answer(known, seed, 201, _without(body, secret))
            return _response(201, body, location)


def _ids_from(seed: str) -> NewId:
    numbers = count()
    return lambda: derived_id(seed, next(numbers))


async def _hash(request: Request) -> str:
    asked = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    return sha256(asked + await request.body()).hexdigest()


def _without(body: bytes, secret: str | None) -> str:
    return body.decode() if secret is None else dumps({**loads(body), secret: None})


def _response(status: int, body: bytes, location: str | None, headers: dict[str, str] | None = None) -> Response:
    answer = Response(body, status, headers, "application/json")
    if location:
        answer.headers["Location"] = location.format(**loads(body))
    return answer
