"""Finds an approval request by its id, or by the first part of one, as people type it."""

from __future__ import annotations

from cortex_plane.core.approvals import AmbiguousApproval, ApprovalId, ApprovalNotFound, ApprovalRequest
from cortex_plane.core.errors import InvalidInput
from cortex_plane.operations.find_job import DASHES, ID_LENGTH, PART_OF_AN_ID
from cortex_plane.ports.store import Store


async def find_approval(store: Store, id_or_prefix: str) -> ApprovalRequest:
    request_id = await find_approval_id(store, id_or_prefix)
    request = await store.approvals.get(request_id)
    if request is None:
        raise ApprovalNotFound(request_id)
    return request


async def find_approval_id(store: Store, id_or_prefix: str) -> ApprovalId:
    prefix = str(id_or_prefix).strip().lower()
    if not PART_OF_AN_ID.fullmatch(prefix) or any((char == "-") != (place in DASHES) for place, char in enumerate(prefix)):
        raise InvalidInput(
            f"{id_or_prefix!r:.60} is not the id of an approval, nor the first four or more characters of one.", field="id"
        )
    if len(prefix) == ID_LENGTH:
        return ApprovalId(prefix)
    found = await store.approvals.find(prefix)
    if not found:
        raise ApprovalNotFound(prefix)
    if len(found) > 1:
        raise AmbiguousApproval(prefix, found)
    return found[0]
