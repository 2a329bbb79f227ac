"""How passwords are kept: slowly, so that a stolen table is of little use."""

from __future__ import annotations

from typing import Protocol


class Passwords(Protocol):
    def hash(self, password: str) -> str: ...

    def matches(self, password_hash: str, password: str) -> bool: ...

    def is_dated(self, password_hash: str) -> bool:
        """Whether it was made with less effort than is asked for now."""
