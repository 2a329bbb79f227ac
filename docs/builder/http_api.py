"""The HTTP API, from its OpenAPI document. Left out of the site where this version has none."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec
from typing import Any

from docs.builder.markdown import literal, table

HTTP = "cortex_plane.http"
METHODS = ("get", "post", "put", "patch", "delete")


def is_there() -> bool:
    return find_spec(HTTP) is not None


def status_of(kind: type[Exception]) -> int:
    """With which status an error is answered."""
    kinds = importlib.import_module(f"{HTTP}.problems").KINDS
    return next((known.status for family, known in kinds.items() if issubclass(kind, family)), 500)


@cache
def document() -> dict[str, Any]:
    from cortex_plane.plane import Plane
    from cortex_plane.settings import Settings

    app = importlib.import_module(f"{HTTP}.app").create_app(Plane(settings=Settings()))
    found: dict[str, Any] = app.openapi()
    return found


def page() -> str:
    found = document()
    parts = ["# HTTP API\n", found["info"].get("description", "").strip() + "\n"]
    parts += ["The same as OpenAPI 3.1: `GET /openapi.json`; to read and try: `/docs` of your server.\n"]
    for tag, operations in _by_tag(found).items():
        parts += [f"## {tag}\n"]
        for method, path, operation in operations:
            parts += [f"### {method.upper()} {path}\n", _about(operation)]
    return "\n".join(parts)


def _by_tag(found: dict[str, Any]) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    tags: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, operations in found["paths"].items():
        for method in METHODS:
            if operation := operations.get(method):
                tags.setdefault((operation.get("tags") or ["other"])[0], []).append((method, path, operation))
    return tags


def _about(operation: dict[str, Any]) -> str:
    text = operation.get("description") or operation.get("summary", "")
    inputs = [
        (literal(one["name"]), one["in"], "yes" if one.get("required") else "", one.get("description", ""))
        for one in operation.get("parameters", [])
    ]
    answers = [(literal(status), answer.get("description", "")) for status, answer in sorted(operation["responses"].items())]
    body = _body(operation)
    return "\n".join(
        [
            f"{text}\n",
            *([table(["parameter", "in", "required", "meaning"], inputs)] if inputs else []),
            *([f"Body: {body}\n"] if body else []),
            table(["status", "meaning"], answers),
        ]
    )


def _body(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    return ", ".join(f"{literal(kind)} {_schema_name(media.get('schema', {}))}".strip() for kind, media in content.items())


def _schema_name(schema: dict[str, Any]) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return literal(name) if name else ""
