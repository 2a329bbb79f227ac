"""Takes secrets out of documents before people see them: by the names of their keys, and by what keys of ours look like."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "•••••• hidden"
SECRET_NAME = re.compile(
    r"passw|pwd|secret|token(?!s|_usage|_count)|api[_-]?key|authori[sz]ation|credential|private[_-]?key|cookie|^auth$|bearer",
    re.IGNORECASE,
)
SECRET_VALUE = re.compile(r"\b(ctx_[A-Za-z0-9_-]{20,}|cortex_apr_[A-Za-z0-9_.-]{8,}|sk-[A-Za-z0-9_-]{16,}|Bearer\s+\S{8,})")


def redacted(value: Any, name: str = "") -> Any:
    """The same document with secrets hidden. Numbers and answers to yes-or-no stay: `max_tokens` is no secret."""
    match value:
        case dict():
            return {key: redacted(inner, str(key)) for key, inner in value.items()}
        case list():
            return [redacted(inner, name) for inner in value]
        case str() if value and SECRET_NAME.search(name):
            return HIDDEN
        case str():
            return SECRET_VALUE.sub(HIDDEN, value)
        case _:
            return value
