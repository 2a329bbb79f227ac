"""Replaces what differs from run to run, so that the rest can be compared as text."""

from __future__ import annotations

import re

RULES = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}\b(?!-)"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<clock>"),
    (re.compile(r"just now|\d+ (s|min) ago"), "<ago>"),
    (re.compile(r" *\+?\b\d+(\.\d+)? (ms|s)\b"), " <span>"),
    (re.compile(r"worker [\w.-]+:\d+"), "worker <name>"),
]


def normal(text: str) -> str:
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    # Columns are as wide as what was replaced in them.
    lines = [re.sub(r"(?<=\S) {2,}", "  ", line).rstrip() for line in text.splitlines()]
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")
