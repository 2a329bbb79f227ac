"""Decides about approval requests, for every door: by a token, as somebody who is signed in, or many at once.

Who may decide is judged where the decision is made, in its transaction; a door only says who is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from cortex_plane.core.approval_rules import checked_reason
from cortex_plane.core.approval_tokens import parse
from cortex_plane.core.approvals import ApprovalId, ApprovalRequest, Verdict
from cortex_plane.core.decisions import Answer, Unknown
from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.people import UserId
from cortex_plane.operations.find_approval import find_approval_id
from cortex_plane.ports.store import Store

MOST_AT_ONCE = 1_000


async def decide_by_token(
    store: Store, token: object, decision: Verdict, *, reason: str | None = None, edits: Any = None, door: str
) -> Answer:
    """A token is its addressee's identity. One that is malformed and one that is unknown get the same answer."""
    decision, reason = _checked(decision), checked_reason(reason)
    found = await _addressee(store, token)
    if found is None:
        return Unknown()
    request_id, user_id, token_hash = found
    return await store.approvals.decide(
        request_id, user_id, decision, reason=reason, edits=edits, door=door, token_hash=token_hash
    )


async def look_by_token(store: Store, token: object) -> tuple[ApprovalRequest, UserId] | None:
    """What a token is for, and whose it is; changes nothing."""
    found = await _addressee(store, token)
    if found is None:
        return None
    request = await store.approvals.get(found[0])
    return None if request is None else (request, found[1])


async def decide_approval(
    store: Store,
    id_or_prefix: str,
    user_id: UserId,
    decision: Verdict,
    *,
    reason: str | None = None,
    edits: Any = None,
    door: str,
) -> Answer:
    decision, reason = _checked(decision), checked_reason(reason)
    request_id = await find_approval_id(store, id_or_prefix)
    return await store.approvals.decide(request_id, user_id, decision, reason=reason, edits=edits, door=door)


async def decide_approvals(
    store: Store, request_ids: Sequence[str], user_id: UserId, decision: Verdict, *, reason: str | None = None, door: str
) -> dict[ApprovalId, Answer]:
    """Each by itself: one that cannot be decided does not keep the others from it."""
    decision, reason = _checked(decision), checked_reason(reason)
    if len(request_ids) > MOST_AT_ONCE:
        raise InvalidInput(f"At most {MOST_AT_ONCE:,} approvals can be decided at once.", field="ids")
    wanted = dict.fromkeys([await find_approval_id(store, request_id) for request_id in request_ids])
    return {
        request_id: await store.approvals.decide(request_id, user_id, decision, reason=reason, door=door) for request_id in wanted
    }


async def _addressee(store: Store, token: object) -> tuple[ApprovalId, UserId, str] | None:
    parsed = parse(token)
    if parsed is None:
        return None
    found = await store.approvals.by_token(parsed.hash)
    return None if found is None else (*found, parsed.hash)


def _checked(decision: Any) -> Verdict:
    if decision not in get_args(Verdict):
        raise InvalidInput(f'decision must be "approved" or "denied", not {decision!r:.80}.', field="decision")
    chosen: Verdict = decision
    return chosen
