"""A request that may come twice: its key, what it asked for, and what was answered."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from cortex_plane.core.errors import Conflict, InvalidInput
from cortex_plane.core.jobs import TenantId

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


class KeyUsedElsewhere(InvalidInput):
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
