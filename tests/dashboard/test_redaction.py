"""Secrets are hidden wherever they stand; what only looks like one by its name stays."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.dashboard.render import HIDDEN, redacted


@pytest.mark.parametrize(
    "name", ["password", "db_password", "API_KEY", "apiKey", "token", "access_token", "client-secret", "auth", "Authorization"]
)
def test_a_value_under_a_telling_name_is_hidden(name: str) -> None:
    assert redacted({"a": [{name: "hush"}]}) == {"a": [{name: HIDDEN}]}


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 100},
        {"token_usage": "many"},
        {"author": "Ada"},
        {"password": ""},
        {"has_password": True},
        {"text": "a tokens list"},
    ],
)
def test_what_is_no_secret_stays(value: Any) -> None:
    assert redacted(value) == value


@pytest.mark.parametrize(
    "text",
    [
        "Bearer abcdefghijkl",
        "ctx_0123456789012345678901234567890123456789",
        '{"image":"1","api_key":"hush-hush"}',
        '{"image":"1","api_key":"hush-hu',
        '{"api_key": "hush \\"hush\\" hush"}',
        "connecting with password=hush-hush to x",
    ],
)
def test_a_secret_inside_of_a_text_is_hidden(text: str) -> None:
    shown = redacted({"message": text})["message"]

    assert HIDDEN in shown
    assert "hush" not in shown
    assert "0123456789" not in shown
    assert "abcdefghijkl" not in shown
