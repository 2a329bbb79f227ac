"""A link that signs one browser in, once: whoever sees the terminal in which the server was started may enter."""

from __future__ import annotations

from hmac import compare_digest

from cortex_plane.core.access import SESSION_BYTES, AccountExists, Role, SignedIn, secret_text
from cortex_plane.operations.sign_in import open_sign_in
from cortex_plane.plane import Plane

NAME = "developer"
ROLES = (Role.ADMIN, Role.APPROVER)


class FirstLink:
    """The token is known to this process only, and forgotten when it was used."""

    def __init__(self, random_bytes: bytes) -> None:
        assert len(random_bytes) >= SESSION_BYTES
        self._token: str | None = secret_text(random_bytes)

    def address(self, base: str) -> str:
        return f"{base}/first?token={self._token}"

    async def redeem(self, plane: Plane, token: str, address: str) -> SignedIn | None:
        if self._token is None or not compare_digest(token.encode("utf-8", "surrogatepass"), self._token.encode()):
            return None
        self._token = None
        return await _sign_in(plane, address)


async def _sign_in(plane: Plane, address: str) -> SignedIn:
    try:
        await plane.access.add_user(NAME, actor="cortex dev")
    except AccountExists:
        pass
    for role in ROLES:
        await plane.access.give_role(NAME, role, actor="cortex dev")
    return await open_sign_in(await plane.store, await plane.access.user(NAME), address)
