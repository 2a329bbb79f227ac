"""The pages that the code writes about itself, by their path on the site."""

from __future__ import annotations

from docs.builder import checkpoint, commands, errors, events, http_api, settings, tables

GENERATED = "<!-- Written by the code itself: python -m docs.builder -->\n\n"


def reference_pages() -> dict[str, str]:
    pages = {
        "reference/commands.md": commands.page(),
        "reference/settings.md": settings.page(),
        "reference/errors.md": errors.page(),
        "reference/events.md": events.page(),
        "reference/checkpoint.md": checkpoint.page(),
        "reference/tables.md": tables.page(),
    }
    if http_api.is_there():
        pages["reference/http-api.md"] = http_api.page()
    return {path: GENERATED + text for path, text in pages.items()}
