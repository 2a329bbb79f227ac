"""State that API servers share: idempotency keys, rate limits and failed sign-ins."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from cortex_plane.errors import Conflict, InvalidInput
from cortex_plane.jobs.model import TenantId
from cortex_plane.storage.database import Database
from cortex_plane.storage.transactions import Transaction, query

KEY_LIMIT = 255
KEPT_SECONDS = 24 * 3600.0
UNDER_WAY_SECONDS = 60.0
"""A request that is not answered by then has died with its server, and may be sent again."""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """Each caller has keys of its own in each tenant."""

    tenant_id: TenantId
    caller: str
    key: str


@dataclass(frozen=True, slots=True)
class Begun:
    """This request is to be carried out now. `seed` is the same when it must be begun anew after a crash."""

    seed: str


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    body: str


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Another server carries it out at this moment."""


@dataclass(frozen=True, slots=True)
class AnotherBody:
    """The key was used for something else."""


Beginning = Begun | Answered | UnderWay | AnotherBody


class RequestUnderWay(Conflict):
    def __init__(self) -> None:
        super().__init__("A request with this Idempotency-Key is under way. Send it again in a moment to get its answer.")


class IdempotencyKeyReused(InvalidInput):
    def __init__(self) -> None:
        super().__init__(
            "This Idempotency-Key was used for a different request. Use a new key for each thing that you ask for.",
            field="Idempotency-Key",
        )


def check_key(key: str) -> str:
    if not 1 <= len(key) <= KEY_LIMIT or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput(
            f"Idempotency-Key must be 1 to {KEY_LIMIT} printable ASCII characters without spaces.", field="Idempotency-Key"
        )
    return key


def derived_id(seed: str, number: int) -> str:
    """A UUIDv7 with the seed's time: the same for the same seed and number, and in the order of the numbers."""
    rest = bytearray(bytes.fromhex(sha256(f"{seed}/{number}".encode()).hexdigest()[:20]))
    time = seed.replace("-", "")[:12]
    order = f"{number % 4096:03x}"
    rest[2] = (rest[2] & 0x3F) | 0x80
    tail = rest[2:10].hex()
    return f"{time[:8]}-{time[8:]}-7{order}-{tail[:4]}-{tail[4:]}"


# -- http state --------------------------------------------------------------------------------
# What all servers of one database know in common: tries, requests under way, their answers.


class HttpStateStore:
    """What all servers of one database share, so that any of them can answer any request."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hit(self, bucket: str, window_seconds: float) -> tuple[int, float]:
        """Counts one more; returns how many there were in this window, and the seconds until the next."""
        [row] = await self._database.write_once("http/hit", bucket=bucket, window_seconds=window_seconds)
        return row["hits"], row["seconds_left"]

    async def take_back(self, bucket: str, hits: int) -> None:
        """Of tries that turned out not to count."""
        await self._database.write("http/take_back", bucket=bucket, hits=hits)

    async def begin(self, request: RequestKey, request_hash: str, seed: str) -> Beginning:
        return await self._database.transact(lambda: _begin(request, request_hash, seed))

    async def answer(self, request: RequestKey, seed: str, status: int, body: str) -> None:
        await self._database.write("http/answer", **_named(request), seed=seed, status=status, body=body)

    async def forget(self, request: RequestKey, seed: str) -> None:
        """It came to nothing and may be sent again."""
        await self._database.write("http/forget", **_named(request), seed=seed)

    async def sweep(self) -> None:
        """Deletes what has expired: sign-ins, windows, answers."""
        for name in ("http/sweep_sign_ins", "http/sweep_windows", "http/sweep_requests"):
            await self._database.write(name)

    async def has_credentials(self) -> bool:
        """Whether anybody could get in: a key that works, or a user with a password and a role."""
        return bool(await self._database.read("access/has_credentials"))


def _begin(request: RequestKey, request_hash: str, seed: str) -> Transaction[Beginning]:
    begun = yield from query(
        "http/begin",
        **_named(request),
        request_hash=request_hash,
        seed=seed,
        under_way_seconds=UNDER_WAY_SECONDS,
        kept_seconds=KEPT_SECONDS,
    )
    if begun:
        return Begun(str(begun[0]["seed"]))
    for row in (yield from query("http/look", **_named(request))):
        if row["request_hash"] != request_hash:
            return AnotherBody()
        if row["status"] is not None:
            return Answered(row["status"], row["body"])
    return UnderWay()


def _named(request: RequestKey) -> dict[str, str]:
    return {"tenant_id": request.tenant_id, "caller": request.caller, "key": request.key}
