"""Every address that can be asked for: each GET route of the app, with real ids in its path, and with each of its filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlencode

from fastapi import FastAPI

from bench.pages.known import Known
from bench.pages.originals import PERSON, RARE_TAG, RARE_TEXT
from cortex_plane.http.routers import served_by
from cortex_plane.jobs.states import JobStatus, RunStatus

# Files, addresses that answer for ever, and those of other programs.
LEFT_OUT = (
    "/docs",
    "/openapi.json",
    "/static/",
    "/approval-page.css",
    "/approvals/{token}",
    "/api/internal/",
    "/api/v1/jobs/events",
    "/api/v1/jobs/{job_id}/events",
    "/live",
    "/first",
    "/sign-in",
    "/problems",
)

WITHOUT_A_TENANT = ("/healthz", "/readyz", "/metrics")

Query = Mapping[str, str]


def addresses(app: FastAPI, known: Known) -> Iterator[tuple[str, str]]:
    """What it is called in the table, and the address itself."""
    for route in served_by(app):
        if "GET" not in route.methods or route.path.startswith(LEFT_OUT):
            continue
        parameters = [parameter.name for parameter in route.dependant.query_params] if route.dependant else []
        for name, path in _paths(route.path, known):
            for query in _queries(route.path, parameters, known):
                shown = urlencode({key: _short(value) for key, value in query.items()})
                yield f"{name}?{shown}" if query else name, f"{path}?{urlencode(query)}" if query else path


def _paths(path: str, known: Known) -> Iterator[tuple[str, str]]:
    if "{job_id}" in path:
        for status, job_id in known.jobs.items():
            if not path.endswith("/checkpoint") or status is JobStatus.WAITING_FOR_APPROVAL:
                yield f"{path} {status}", path.format(job_id=job_id)
    else:
        yield path, path.format(**{name: quote(value, safe="") for name, value in known.in_path(path).items()})


def _queries(path: str, parameters: list[str], known: Known) -> Iterator[Query]:
    if "run_id" in parameters:
        yield {"run_id": known.run_under_grant}
        return
    yield {}
    if "tag" in parameters:
        yield from _of_jobs(known)
    elif "status" in parameters:
        yield from ({"status": status} for status in RunStatus)
        yield from ({"status": status, "tenant": "south"} for status in RunStatus)
    if "actor" in parameters:
        yield from ({"actor": value} for value in (PERSON, "nobody"))
        yield from ({"action": value} for value in ("JOB_COMPLETED", "JOB_CANCELLED", "TEMPLATE_SAVED", "NEVER"))
        yield {"action": "JOB_COMPLETED", "actor": "nobody"}
        yield {"cursor": known.cursor("audit", known.audit_seq)}
        yield {"action": "JOB_CANCELLED", "cursor": known.cursor("audit", known.audit_seq)}
    if "object_id" in parameters:
        yield {"object_id": known.jobs[JobStatus.COMPLETED]}
    if "since" in parameters and "status" not in parameters:
        yield {"since": known.middle, "until": known.late}
    if "open_only" in parameters:
        yield {"open_only": "false"}
        yield {"job": known.jobs[JobStatus.WAITING_FOR_APPROVAL]}
    if "limit" in parameters:
        yield {"limit": "1000"}
    if (kind := known.cursors.get(path)) is not None:
        yield {"cursor": known.cursor(*kind), "limit": "200"}
    if "agent" in parameters and "status" not in parameters:
        yield {"agent": "mail"}
    if "{" not in path and not path.startswith(WITHOUT_A_TENANT):
        yield {"tenant": "north"}


def _of_jobs(known: Known) -> Iterator[Query]:
    deep = {"cursor": known.cursor("job", known.deep_job)}
    yield from ({"status": status} for status in JobStatus)
    yield from ({"status": status, "tenant": "south"} for status in JobStatus)
    yield from ({"agent": agent} for agent in ("mail", "retry", "unlimited"))
    yield from ({"queue": queue} for queue in ("slow", "empty"))
    yield from ({"tag": tag} for tag in ("invoice", RARE_TAG, "never"))
    yield from ({"text": text} for text in ("customer-17", RARE_TEXT, "never said"))
    yield {"since": known.middle, "until": known.late}
    yield {"until": known.middle}
    yield {"since": known.late}
    yield deep
    yield from (
        {**deep, **query} for query in ({"tag": "never"}, {"text": "never said"}, {"status": "FAILED"}, {"agent": "mail"})
    )
    yield {"status": "COMPLETED", "agent": "mail", "queue": "slow", "tag": "invoice", "tenant": "north", "text": "never said"}


def _short(value: str) -> str:
    return value if len(value) <= 20 else f"{value[:8]}…"
