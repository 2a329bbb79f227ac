"""What an app serves, route by route, as it takes effect: with all prefixes, and all that is declared above it."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from cortex_plane.adapters.http.access import Requirement, requirement_in


@dataclass(frozen=True, slots=True)
class Served:
    path: str
    methods: tuple[str, ...]
    dependant: Dependant | None
    described: bool

    @property
    def requirement(self) -> Requirement | None:
        """Who may call it; None when that was forgotten."""
        return None if self.dependant is None else requirement_in(self.dependant)


def served_by(app: FastAPI) -> list[Served]:
    """Whatever is mounted, also what is not a route of FastAPI's: that declares nothing, and so cannot hide."""
    return [
        Served(
            path=(route.path or "(mounted)").replace(":path}", "}"),
            methods=tuple(sorted(route.methods or ())),
            dependant=getattr(route, "dependant", None),
            described=getattr(route, "include_in_schema", False),
        )
        for route in iter_route_contexts(app.routes)
    ]
