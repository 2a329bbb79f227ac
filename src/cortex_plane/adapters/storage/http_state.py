"""What all servers of one database know in common: tries, requests under way, their answers."""

from __future__ import annotations

from cortex_plane.adapters.storage.database import Database
from cortex_plane.adapters.storage.scripts import Script, ask
from cortex_plane.core.http_requests import (
    KEPT_SECONDS,
    UNDER_WAY_SECONDS,
    AnotherBody,
    Answered,
    Beginning,
    Begun,
    RequestKey,
    UnderWay,
)


class SqlHttpState:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def hit(self, bucket: str, window_seconds: float) -> tuple[int, float]:
        [row] = await self._database.write_once("http/hit", bucket=bucket, window_seconds=window_seconds)
        return row["hits"], row["seconds_left"]

    async def begin(self, request: RequestKey, request_hash: str, seed: str) -> Beginning:
        return await self._database.transact(lambda: _begin(request, request_hash, seed))

    async def answer(self, request: RequestKey, seed: str, status: int, body: str) -> None:
        await self._database.write("http/answer", **_named(request), seed=seed, status=status, body=body)

    async def forget(self, request: RequestKey, seed: str) -> None:
        await self._database.write("http/forget", **_named(request), seed=seed)

    async def sweep(self) -> None:
        for name in ("http/sweep_sign_ins", "http/sweep_windows", "http/sweep_requests"):
            await self._database.write(name)

    async def has_credentials(self) -> bool:
        return bool(await self._database.read("access/has_credentials"))


def _begin(request: RequestKey, request_hash: str, seed: str) -> Script[Beginning]:
    begun = yield from ask(
        "http/begin",
        **_named(request),
        request_hash=request_hash,
        seed=seed,
        under_way_seconds=UNDER_WAY_SECONDS,
        kept_seconds=KEPT_SECONDS,
    )
    if begun:
        return Begun(str(begun[0]["seed"]))
    for row in (yield from ask("http/look", **_named(request))):
        if row["request_hash"] != request_hash:
            return AnotherBody()
        if row["status"] is not None:
            return Answered(row["status"], row["body"])
    return UnderWay()


def _named(request: RequestKey) -> dict[str, str]:
    return {"tenant_id": request.tenant_id, "caller": request.caller, "key": request.key}
