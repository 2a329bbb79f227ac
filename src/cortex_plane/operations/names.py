"""Names that people give to what they store."""

from __future__ import annotations

from cortex_plane.core.errors import InvalidInput
from cortex_plane.ports.json_text import encode

NAME_LIMIT = 200


def checked_name(value: str, field: str = "name") -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > NAME_LIMIT:
        raise InvalidInput(f"{field} must be text of 1 to {NAME_LIMIT} characters, not {value!r:.80}.", field=field)
    encode(value, field)
    return value


def checked_readable_name(value: str, field: str = "name") -> str:
    """For what people type again as they see it: no spaces around it, and nothing that does not show."""
    checked_name(value, field)
    if value != value.strip() or not value.isprintable():
        raise InvalidInput(f"{field} must be printable characters without spaces around them, not {value!r:.80}.", field=field)
    return value
