"""Password hashing with Argon2."""

from __future__ import annotations

from typing import Protocol

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError


class Passwords(Protocol):
    def hash(self, password: str) -> str: ...

    def matches(self, password_hash: str, password: str) -> bool: ...

    def is_dated(self, password_hash: str) -> bool:
        """Whether it was made with less effort than is asked for now."""


# -- passwords ---------------------------------------------------------------------------------
# Passwords by argon2id, with the parameters that its library recommends.


class Argon2Passwords:
    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()

    def hash(self, password: str) -> str:
        return self._hasher.hash(password)

    def matches(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (VerificationError, InvalidHashError):
            return False

    def is_dated(self, password_hash: str) -> bool:
        return self._hasher.check_needs_rehash(password_hash)
