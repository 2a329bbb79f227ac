"""A new schedule. What is wrong with it is told beside the field that is wrong, and nothing that was written is lost."""

from __future__ import annotations

import json
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Form, Request, Response

from cortex_plane.adapters.dashboard.notes import Note, go_to
from cortex_plane.adapters.dashboard.rendering import page
from cortex_plane.adapters.http.access import ThePlane, require
from cortex_plane.core.access import Caller, Role
from cortex_plane.core.errors import CortexError, InvalidInput, Unavailable
from cortex_plane.core.grants import AGENT_TARGET, TEMPLATE_TARGET
from cortex_plane.core.jobs import INTERNAL_PREFIX
from cortex_plane.core.schedules import MissedRule, OverlapRule, ScheduleExists
from cortex_plane.plane import Plane

router = APIRouter(include_in_schema=False)

Operator = Annotated[Caller, require(Role.OPERATOR)]
Word = Annotated[str, Form(max_length=300)]
EMPTY = {"name": "", "target": "", "cron": "", "timezone": "UTC", "input": "{}", "missed": "skip", "overlap": "forbid"}


@router.get("/schedules/new")
async def ask(request: Request, caller: Operator, plane: ThePlane) -> Response:
    return await _form(request, caller, plane, EMPTY)


@router.post("/schedules")
async def add(
    request: Request,
    caller: Operator,
    plane: ThePlane,
    name: Word = "",
    target: Word = "",
    cron: Word = "",
    timezone: Word = "UTC",
    input: Annotated[str, Form(max_length=300_000)] = "{}",  # noqa: A002 - the word for it everywhere
    missed: Word = "skip",
    overlap: Word = "forbid",
) -> Response:
    """Shows the new schedule, and with it when it comes next."""
    asked = {
        "name": name.strip(),
        "target": target,
        "cron": cron,
        "timezone": timezone.strip(),
        "input": input,
        "missed": missed,
        "overlap": overlap,
    }
    try:
        terms: Any = {**asked, "input": _input(input)}
        schedule = await plane.schedules.add(**terms, tenant=caller.tenant, created_by=caller.name)
    except Unavailable:
        raise
    except CortexError as error:
        return await _form(request, caller, plane, asked, problem=str(error), field=_field(error), status=422)
    tenant = request.query_params.get("tenant")
    here = f"/schedules/{schedule.id}" + (f"?tenant={tenant}" if tenant else "")
    return go_to(here, Note("done", f"{schedule.name} is scheduled."))


async def _form(
    request: Request,
    caller: Caller,
    plane: Plane,
    asked: dict[str, str],
    *,
    problem: str = "",
    field: str = "",
    status: int = 200,
) -> Response:
    return await page(
        request,
        caller,
        "new_schedule.html",
        status=status,
        asked=asked,
        problem=problem,
        field=field,
        targets=await _targets(plane, caller),
        missed=get_args(MissedRule),
        overlap=get_args(OverlapRule),
    )


async def _targets(plane: Plane, caller: Caller) -> list[str]:
    agents = [agent.job_type for agent in await (await plane.store).agents.list()]
    templates = [template.name for template in await plane.templates.list(tenant=caller.tenant)]
    return [
        *(f"{AGENT_TARGET}{name}" for name in agents if not name.startswith(INTERNAL_PREFIX)),
        *(f"{TEMPLATE_TARGET}{name}" for name in templates),
    ]


def _field(error: CortexError) -> str:
    """Where it is told; one that no field stands for is told above them all."""
    if isinstance(error, ScheduleExists):
        return "name"
    named = error.field if isinstance(error, InvalidInput) else None
    return named if named in EMPTY else ""


def _input(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text.strip() or "{}")
    except ValueError as error:
        raise InvalidInput(f'This is not JSON: {error}. Write {{"name": "value"}}.', field="input") from None
    if not isinstance(value, dict):
        raise InvalidInput('The input must be an object: arguments by name, such as {"kind": "short"}.', field="input")
    return value
