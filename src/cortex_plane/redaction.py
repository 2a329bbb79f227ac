"""Takes secrets out of what is written down for people: by the names of fields, by how tokens look, by their very text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

REDACTED = "[redacted]"
SHORTEST_SECRET = 4
"""What is shorter would be found everywhere."""
DEEPEST = 8

FIELD = re.compile(r"(^|[_-])(authorization|password|passwd|secret|token|api_?key|cookie|credentials?)$", re.IGNORECASE)
LOOKS = re.compile(
    r"(?P<before>\b(?:Bearer|Basic)\s+)[^\s'\",]+"
    r"|(?P<user>://[^/\s:@]*:)(?:[^\s@/]|/(?!/))++(?=@)"  # Not past the next `//`, so that no text is read twice.
    r"|\bcortex_apr_\d+_[A-Za-z0-9_-]+"
    r"|\bctx_[A-Za-z0-9_-]{20,}"  # Its beginning alone, by which people know it, is shorter.
    r"|\bwhsec_[A-Za-z0-9+/=_-]{8,}",
    re.IGNORECASE,
)


def redacted_text(text: str, secrets: Collection[str] = ()) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return LOOKS.sub(lambda found: f"{found['before'] or found['user'] or ''}{REDACTED}", text)


def redacted(value: Any, secrets: Collection[str] = (), depth: int = 0) -> Any:
    """The same, without what nobody should read. What is not text, list or dict is left as it is."""
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
    """Control characters, and those that turn the direction of writing, as escapes; `lines`: but not the ends of lines."""
    return text.translate(_INVISIBLE_IN_LINES if lines else _INVISIBLE)


def worth_hiding(secrets: Collection[str]) -> tuple[str, ...]:
    """Longest first: one may be a part of another."""
    return tuple(sorted((secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True))
