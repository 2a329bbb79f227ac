"""The API of tests/http, attacked."""

from __future__ import annotations

from tests.http.conftest import admin, api

__all__ = ["admin", "api"]
