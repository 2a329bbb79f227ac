"""Secrets are taken out of what people read; what is none stays."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.redaction import REDACTED, redacted, redacted_text, worth_hiding

KEY = "ctx_" + "aB3_-" * 10


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"sent {KEY} along", f"sent {REDACTED} along"),
        ("caller key:ctx_JCAbkv3k", "caller key:ctx_JCAbkv3k"),
        ("/api/approvals/cortex_apr_1_aB3_-x/approve", f"/api/approvals/{REDACTED}/approve"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {REDACTED}"),
        ("postgresql://ada:hunter2@db.example.com/x", f"postgresql://ada:{REDACTED}@db.example.com/x"),
        ("http://example.com:8700/jobs", "http://example.com:8700/jobs"),
        ("it cost 5 tokens", "it cost 5 tokens"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str, shown: str) -> None:
    assert redacted_text(text) == shown


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"password": "hunter2"}, {"password": REDACTED}),
        ({"Authorization": "x"}, {"Authorization": REDACTED}),
        ({"csrf_token": "x", "api_key": "y", "apikey": "z"}, {"csrf_token": REDACTED, "api_key": REDACTED, "apikey": REDACTED}),
        ({"input_tokens": 5, "token": None}, {"input_tokens": 5, "token": None}),
        ({"body": [{"secret": "x", "a": 1}]}, {"body": [{"secret": REDACTED, "a": 1}]}),
        ({"job_key": "nightly", "job_id": "1"}, {"job_key": "nightly", "job_id": "1"}),
    ],
)
def test_a_field_with_a_telling_name_is_taken_out_at_any_depth(fields: dict[str, Any], shown: dict[str, Any]) -> None:
    assert redacted(fields) == shown


def test_known_secrets_are_taken_out_wherever_they_stand() -> None:
    secrets = worth_hiding(["opensesame", "open", "", "abc"])

    assert secrets == ("opensesame", "open")
    assert redacted({"a": "say opensesame, then open"}, secrets) == {"a": f"say {REDACTED}, then {REDACTED}"}
