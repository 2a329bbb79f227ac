"""Who decides where people sign in, at the API and on pages alike: a person, or a key of theirs that was made for it."""

from __future__ import annotations

from fastapi import Request

from cortex_plane.core.access import Caller, Role, RoleMissing
from cortex_plane.core.errors import Denied
from cortex_plane.core.people import UserId


def only_here(request: Request) -> bool:
    """A key reaches no further than the tenant that it is used in."""
    return "authorization" in request.headers


def person_of(request: Request, caller: Caller) -> UserId:
    """Whether they may decide is judged with the decision itself; a key must have been made for deciding, too."""
    if only_here(request) and not caller.may(Role.APPROVER):
        raise RoleMissing(Role.APPROVER, everywhere=False)
    if caller.user_id is None:
        raise Denied(
            "This API key belongs to nobody, and an approval is a person's decision. To make one that does: "
            "cortex keys add NAME --user NAME --role approver"
        )
    return caller.user_id
