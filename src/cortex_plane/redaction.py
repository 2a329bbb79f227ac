"""Redaction of secrets in logs and pages: by field name, by the pattern of tokens, and by value."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

REDACTED = "[redacted]"
SHORTEST_SECRET = 4
"""Shorter secrets are not redacted by value: they would match everywhere."""
DEEPEST = 8

FIELD = re.compile(r"(^|[_-])(authorization|password|passwd|secret|token|api_?key|cookie|credentials?)$", re.IGNORECASE)
LOOKS = re.compile(
    r"(?P<before>\b(?:Bearer|Basic)\s+)[^\s'\",]+"
    r"|(?P<user>://[^/\s:@]*:)(?:[^\s@/]|/(?!/))++(?=@)"  # Stops at the next `//`, so that matching stays linear.
    r"|\bcortex_apr_\d+_[A-Za-z0-9_-]+"
    r"|\bctx_[A-Za-z0-9_-]{20,}"  # The public prefix of an API key is shorter, and stays.
    r"|\bwhsec_[A-Za-z0-9+/=_-]{8,}",
    re.IGNORECASE,
)


def redacted_text(text: str, secrets: Collection[str] = ()) -> str:
    """The text without the given secrets and without anything that looks like a token."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return LOOKS.sub(lambda found: f"{found['before'] or found['user'] or ''}{REDACTED}", text)


def redacted(value: Any, secrets: Collection[str] = (), depth: int = 0) -> Any:
    """The value without secrets. Values other than text, list and dict are returned unchanged."""
    match value:
        case str():
            return redacted_text(value, secrets)
        case Mapping() if depth < DEEPEST:
            return {name: _field(name, item, secrets, depth) for name, item in value.items()}
        case list() | tuple() if depth < DEEPEST:
            return [redacted(item, secrets, depth + 1) for item in value]
        case _:
            return value


def _field(name: Any, value: Any, secrets: Collection[str], depth: int) -> Any:
    if isinstance(name, str) and value is not None and FIELD.search(name):
        return REDACTED
    return redacted(value, secrets, depth + 1)


_INVISIBLE = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
_INVISIBLE.update({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"})
_INVISIBLE_IN_LINES = {code: text for code, text in _INVISIBLE.items() if chr(code) not in "\n\t"}


def visible(text: str, *, lines: bool = False) -> str:
    """Escapes control characters and bidirectional controls. With `lines`, newlines and tabs are kept."""
    return text.translate(_INVISIBLE_IN_LINES if lines else _INVISIBLE)


def worth_hiding(secrets: Collection[str]) -> tuple[str, ...]:
    """The secrets that are long enough to redact, longest first: one may contain another."""
    return tuple(sorted((secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True))
