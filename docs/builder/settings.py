"""Every setting, with its default."""

from __future__ import annotations

from dataclasses import fields

from cortex_plane.settings import DESCRIPTIONS, FILE, OTHERS, PREFIX, Settings
from docs.builder.markdown import literal, table

INTRODUCTION = f"""# Settings

A setting comes from `{FILE}` in the current folder, then from the environment, then from an argument; the later wins. All are
checked at the start, and all problems are reported together. A variable that begins with `{PREFIX}` and is not known is a
problem too, so that a typing error is not silently ignored.
"""
AFTERWARDS = """`cortex doctor` lists them with the value that each has here, and where it comes from.

Not settings, though of the family:"""


def page() -> str:
    rows = [
        (literal(field.name), literal(PREFIX + field.name.upper()), _default(field.default), DESCRIPTIONS[field.name])
        for field in fields(Settings)
    ]
    others = ", ".join(literal(name) for name in sorted(OTHERS))
    return "\n".join([INTRODUCTION, table(["setting", "variable", "default", "meaning"], rows), f"{AFTERWARDS} {others}.", ""])


def _default(value: object) -> str:
    match value:
        case bool():
            return literal(str(value).lower())
        case "":
            return "none"
        case _:
            return literal(value)
