"""What the types of problems mean: each is an address, and here is what is found there."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from cortex_plane.adapters.http.access import anybody
from cortex_plane.adapters.http.errors import Kind, all_kinds
from cortex_plane.adapters.http.inputs import NamePath
from cortex_plane.core.errors import NotFound

router = APIRouter(prefix="/problems", tags=["problems"])


class ProblemKind(BaseModel):
    type: str
    title: str
    status: int


@router.get("", dependencies=[anybody])
async def list_problems() -> list[ProblemKind]:
    """Every type of problem that there is."""
    return [_described(kind) for kind in all_kinds().values()]


@router.get("/{code}", dependencies=[anybody])
async def get_problem(code: NamePath) -> ProblemKind:
    """One type of problem."""
    kind = all_kinds().get(code)
    if kind is None:
        raise NotFound(f"There is no type of problem {code!r:.80}. All of them: /problems")
    return _described(kind)


def _described(kind: Kind) -> ProblemKind:
    return ProblemKind(type=f"/problems/{kind.code}", title=kind.title, status=kind.status)
