"""Every page of the dashboard, from its routes: one that is added is tested and photographed without being named anywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import FastAPI

from cortex_plane.dashboard.app import ROUTERS
from cortex_plane.http.routers import add_routes, served_by

NO_PAGES = {"/live", "/first", "/static/{digest}/{name}"}
PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Page:
    """`name` is that of its picture."""

    name: str
    address: str


def pages(places: Mapping[str, str]) -> list[Page]:
    """`places` says what stands for the parameters of addresses: {"job_id": "0197c5b2-…"}."""
    app = FastAPI(openapi_url=None)
    for router in ROUTERS:
        add_routes(app, router)
    paths = [route.path for route in served_by(app) if "GET" in route.methods]
    return [Page(_name(path), _address(path, places)) for path in paths if path not in NO_PAGES]


def _name(path: str) -> str:
    """`/jobs` is jobs, `/jobs/{job_id}` is job, `/approvals/requests/{approval_id}` is approval, `/queues/{name}` is queue."""
    words = [part for part in path.split("/") if part]
    if not words:
        return "overview"
    if not PARAMETER.fullmatch(words[-1]):
        return "-".join(words)
    return words[0].removesuffix("s")


def _address(path: str, places: Mapping[str, str]) -> str:
    missing = [name for name in PARAMETER.findall(path) if name not in places]
    assert not missing, f"{path} needs a place for {', '.join(missing)}: give the demo plane one, in docs/screenshots/demo.py."
    return PARAMETER.sub(lambda found: places[found[1]], path)
