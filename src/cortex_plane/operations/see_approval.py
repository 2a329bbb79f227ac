"""Finds an approval request for somebody who may see it: for all others it is not there."""

from __future__ import annotations

from cortex_plane.core.access import Caller, Role
from cortex_plane.core.approval_rules import is_named
from cortex_plane.core.approvals import ApprovalNotFound, ApprovalRequest
from cortex_plane.operations.find_approval import find_approval
from cortex_plane.ports.store import Store


async def see_approval(store: Store, caller: Caller, id_or_prefix: str, *, only_here: bool = False) -> ApprovalRequest:
    """Those who may look at jobs or approve in its tenant, and those who are asked by name or by a group, wherever they are
    at home. With `only_here`, nothing outside of the caller's tenant."""
    request = await find_approval(store, id_or_prefix)
    if request.tenant_id == caller.tenant_id:
        if caller.may(Role.VIEWER) or (caller.may(Role.APPROVER) and not request.designated):
            return request
    elif only_here:
        raise ApprovalNotFound(request.id)
    if caller.user_id is not None and is_named(request, caller.user_id, await store.people.groups_of(caller.user_id)):
        return request
    raise ApprovalNotFound(request.id)
