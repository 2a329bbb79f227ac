"""Other programs of the installation that call the execution service: how they are known, and how often they may call."""

from __future__ import annotations

from dataclasses import dataclass

from cortex_plane.core.access import NotSignedIn, TooManyTries


@dataclass(frozen=True, slots=True)
class ServiceCaller:
    """`name` is how it proved who it is. `service_name` is what it says of itself: only a signed token makes that certain."""

    name: str
    bucket: str
    service_name: str | None


class UnknownService(NotSignedIn):
    """One answer for everything that may be wrong: which part it is helps only those who guess."""

    def __init__(self) -> None:
        super().__init__(
            "The execution service does not know you. Call it with Authorization: Bearer, and its secret "
            "(CORTEX_INTERNAL_API_TOKEN) or a token that is signed with CORTEX_INTERNAL_JWT_SECRET, for it, and not expired."
        )


class TooManyRequests(TooManyTries):
    def __init__(self, most: int, seconds: float) -> None:
        super().__init__(seconds)
        self.most = most

    def __str__(self) -> str:
        return (
            f"The execution service takes {self.most:,} requests in a second from each caller. Slow down, or raise "
            "CORTEX_INTERNAL_API_REQUESTS_PER_SECOND."
        )
