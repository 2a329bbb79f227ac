"""The description of the API, made from the routes: every error that a route can answer is in it, and who may call it."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from cortex_plane.http.auth import Requirement
from cortex_plane.http.problems import MEDIA_TYPE, Kind, all_kinds
from cortex_plane.http.routers import Served, served_by

DESCRIPTION = """
Everything that a plane can do. Sign in with an API key (`Authorization: Bearer ctx_…`) or with a session cookie; a key belongs
to one tenant or to all, and what belongs to another tenant is not there. Errors are RFC 9457 problems with stable types.
"""
SECURITY: list[dict[str, list[str]]] = [{"key": []}, {"session": []}]
SERVICE_SECURITY: list[dict[str, list[str]]] = [{"service": []}]
SCHEMES = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key: cortex keys add NAME"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "cortex_session",
        "description": "Set by POST /api/v1/session. Changes also need the header X-CSRF-Token.",
    },
    "service": {
        "type": "http",
        "scheme": "bearer",
        "description": "CORTEX_INTERNAL_API_TOKEN, or a JWT that is signed with CORTEX_INTERNAL_JWT_SECRET.",
    },
}
PROBLEM = {
    "type": "object",
    "title": "Problem",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "A stable address; see /problems.", "examples": ["/problems/job-not-found"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, to what, and what to do next."},
        "errors": {
            "type": "array",
            "description": "Which fields are wrong.",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "request_id": {"type": "string"},
    },
}


def describe(app: FastAPI) -> None:
    """FastAPI asks for the description when somebody first wants it; it is kept."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title="Cortex Plane",
        version=app.version,
        openapi_version="3.1.0",
        description=DESCRIPTION,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    components = document.setdefault("components", {})
    components["securitySchemes"] = SCHEMES
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for route in served_by(app):
        for method in route.methods if route.described else ():
            _complete(document["paths"][route.path][method.lower()], route)
    return document


def _complete(operation: dict[str, Any], route: Served) -> None:
    requirement = route.requirement
    assert requirement is not None
    if not requirement.open:
        operation["security"] = SERVICE_SECURITY if requirement.service else SECURITY
        operation["description"] = f"{operation.get('description', '')}\n\n{_who(requirement)}".strip()
    for parameter in operation.get("parameters", ()):
        _without_null(parameter["schema"])
    responses = operation["responses"]
    responses.pop("422", None)
    for status, kinds in _problems(route, requirement).items():
        if str(status) not in responses:
            responses[str(status)] = _response(kinds)


def _without_null(schema: dict[str, Any]) -> None:
    """A parameter is left out, or is there; it cannot be null."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        del schema["anyOf"]
        schema.update(choices[0])


def _who(requirement: Requirement) -> str:
    if requirement.service:
        return "For programs of the installation, such as workers: no key and no session opens it."
    if requirement.role is None:
        return "For everybody who is signed in or has a key."
    where = "in all tenants" if requirement.everywhere else "in the tenant"
    return f"Needs the role **{requirement.role}** {where}."


def _problems(route: Served, requirement: Requirement) -> dict[int, list[Kind]]:
    """By status. What a state forbids is not listed type by type: those are on /problems."""
    methods, statuses = set(route.methods), {421, 422, 500, 503}
    if route.path != "/healthz":
        statuses |= {429} if not requirement.open or "session" in route.path else set()
    if not requirement.open:
        statuses |= {401, 403, 404}
    elif "POST" in methods:
        statuses |= {401}
    if "approvals" in route.path and "POST" in methods:
        statuses |= {403, 404, 410, 429}
    if "{" in route.path:
        statuses |= {404}
    if methods - {"GET"}:
        statuses |= {400, 409, 412, 413}
    if any(field.alias == "cursor" for field in (route.dependant.query_params if route.dependant else ())):
        statuses |= {400}
    found: dict[int, list[Kind]] = {}
    for kind in all_kinds().values():
        if kind.status in statuses:
            found.setdefault(kind.status, []).append(kind)
    return found


def _response(kinds: list[Kind]) -> dict[str, Any]:
    first = kinds[0]
    example = {"type": f"/problems/{first.code}", "title": first.title, "status": first.status, "detail": "…"}
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}}
    return {"description": "; ".join(f"{kind.title} (`{kind.code}`)" for kind in kinds), "content": content}
