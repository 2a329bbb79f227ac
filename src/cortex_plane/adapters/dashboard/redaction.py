"""Takes secrets out of documents before people see them: by the names of their keys, and by what keys of ours look like."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "•••••• hidden"
NAMES = "passw|pwd|secret|token(?!s|_usage|_count)|api[_-]?key|authori[sz]ation|credential|private[_-]?key|cookie|bearer"
SECRET_NAME = re.compile(f"{NAMES}|^auth$", re.IGNORECASE)
SECRET_VALUE = re.compile(r"\b(ctx_[A-Za-z0-9_-]{20,}|cortex_apr_[A-Za-z0-9_.-]{8,}|sk-[A-Za-z0-9_-]{16,}|Bearer\s+\S{8,})")
# Documents and settings inside of texts, such as the summary of a result or a line of a log; perhaps cut off.
SECRET_IN_JSON = re.compile(rf"""("[^"]*(?:{NAMES})[^"]*"\s*:\s*)"(?:[^"\\]|\\.)*"?""", re.IGNORECASE)
SECRET_SETTING = re.compile(rf"""(\b[\w-]*(?:{NAMES})[\w-]*\s*=\s*)[^\s,;&]+""", re.IGNORECASE)


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
            return _in_text(value)
        case _:
            return value


def _in_text(text: str) -> str:
    text = SECRET_IN_JSON.sub(rf'\1"{HIDDEN}"', text)
    text = SECRET_SETTING.sub(rf"\1{HIDDEN}", text)
    return SECRET_VALUE.sub(HIDDEN, text)
