"""The gate: a handler asks, leaves its worker, and is called again when somebody has decided.

asked ──▶ durable in the journal ──▶ WAITING_FOR_APPROVAL, with the request, in one transaction
decided ──▶ called again ──▶ what was shown must be what is asked for now ──▶ the decision is in the journal
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any, NoReturn

from cortex_plane.core.approval_rules import new_approval
from cortex_plane.core.approval_tokens import TOKEN_BYTES, mint
from cortex_plane.core.approvals import ApprovalId, ApprovalRequest, NewApproval, digest_of
from cortex_plane.core.errors import ApprovalChanged, CodeChanged
from cortex_plane.core.gates import Approval, Gate
from cortex_plane.core.normal_json import normal
from cortex_plane.ports.json_text import encode
from cortex_plane.runtime.durable.calls import HOW_TO_GO_ON, input_digest
from cortex_plane.runtime.durable.entries import Entry
from cortex_plane.runtime.durable.flow import outside_gather
from cortex_plane.runtime.durable.recorder import Recorder
from cortex_plane.runtime.durable.scopes import checked_step_name
from cortex_plane.runtime.durable.suspending import AwaitApproval
from cortex_plane.runtime.failures import ApprovalDenied


async def ask(recorder: Recorder, gate: Gate, name: str = "approval") -> Approval:
    recorder.check()
    key = outside_gather(recorder, "ctx.approval").key(checked_step_name(name))
    return await ask_as(recorder, key, gate, name)


async def ask_as(recorder: Recorder, key: str, gate: Gate, name: str) -> Approval:
    """Under an identity that the caller knows to be this request's."""
    digest = input_digest((gate.summary, gate.details), {})[:16]
    entry = recorder.journal.take(key)
    if entry is not None:
        _check_same(recorder, name, entry, digest)
        if "result" in entry or entry.get("blob"):
            return _heard(Approval.from_json(recorder.journal.result_of(entry)))
    started_at = recorder.now()
    found = None if entry is None else await recorder.services.approval(ApprovalId(entry["request"]))
    if entry is None or found is None or found.is_open:
        await _leave(recorder, key, gate, name, entry, digest)
    _check_shown(recorder, name, key, gate, found)
    decision = Approval.of(found)
    text = encode(decision.to_json(), "approval")
    recorder.journal.put(key, dict(entry), text)
    recorder.journal.log_step(name, started_at, recorder.now(), text, 0)
    return _heard(decision)


async def _leave(recorder: Recorder, key: str, gate: Gate, name: str, entry: Entry | None, digest: str) -> NoReturn:
    """The id of the request is durable before the request is there, so that it is made once."""
    recorder.reach("before_approval", name)
    request_id = ApprovalId(recorder.services.new_id() if entry is None else entry["request"])
    request = await _request(recorder, request_id, key, gate)
    if entry is None:
        recorder.journal.put(key, {"kind": "approval", "input": digest, "request": request_id})
        await recorder.save(name, "awaiting_approval")
    recorder.reach("asking", name)
    recorder.suspend(AwaitApproval(request))


async def _request(recorder: Recorder, request_id: ApprovalId, key: str, gate: Gate) -> NewApproval:
    claimed, find = recorder.claimed, recorder.services.approvers
    escalate = gate.escalate
    return new_approval(
        request_id=request_id,
        job_id=claimed.job_id,
        run_id=claimed.run_id,
        agent_id=recorder.agent_id,
        tenant_id=claimed.tenant_id,
        gate_key=key,
        token_hash=mint(secrets.token_bytes(TOKEN_BYTES)).hash,
        summary=gate.summary,
        details=gate.details,
        config=recorder.config.approval,
        approvers=await find(claimed.tenant_id, gate.approvers, "approvers"),
        quorum=gate.quorum,
        no_self_approval=gate.no_self_approval,
        editable=gate.editable,
        ttl_seconds=_seconds(gate.ttl),
        remind_after_seconds=_seconds(gate.remind),
        escalate_after_seconds=None if escalate is None else _seconds(escalate.after),
        escalate_to=await find(claimed.tenant_id, None if escalate is None else escalate.to, "escalate"),
        on_expiry=gate.on_expiry,
        default=gate.default,
        on_denial=gate.on_denial,
    )


def _check_same(recorder: Recorder, name: str, entry: Entry, digest: str) -> None:
    if entry["kind"] != "approval":
        recorder.stop(
            CodeChanged(name, f'"{name}" is recorded as a {entry["kind"]}, and the code asks for an approval. {HOW_TO_GO_ON}')
        )
    if entry.get("input") != digest:
        recorder.stop(ApprovalChanged(name))


def _check_shown(recorder: Recorder, name: str, key: str, gate: Gate, found: ApprovalRequest) -> None:
    """What was shown is what is approved: neither the code nor the stored request may have changed since."""
    claimed = recorder.claimed
    asked = digest_of(claimed.tenant_id, claimed.job_id, key, gate.summary, normal(gate.details, "details"))
    if found.digest != asked or not found.is_as_shown:
        recorder.stop(ApprovalChanged(name))


def _heard(decision: Approval) -> Approval:
    if decision.outcome == "denied":
        raise ApprovalDenied(decision.decided_by, decision.reason)
    return decision


def _seconds(length: float | timedelta | None) -> Any:
    return length.total_seconds() if isinstance(length, timedelta) else length
