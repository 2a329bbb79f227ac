"""A checkpoint as a worker writes it, to be damaged by tests."""

from __future__ import annotations

import json
from typing import Any

from cortex_plane.durable.schema import StoredCheckpoint, crc_of, resealed
from cortex_plane.jobs.model import AgentId, JobId
from cortex_plane.json import dumps, loads

AGENT = AgentId("01890000-0000-7000-8000-000000000001")
CHECKPOINT = "01890000-0000-7000-8000-000000000002"
JOB = JobId("01890000-0000-7000-8000-000000000003")
INVOCATION = "01890000-0000-7000-8000-000000000004"
AT = "2026-01-05T09:00:00+00:00"


def a_blob(**memory: Any) -> dict[str, Any]:
    steps = {
        "build#1": {"kind": "step", "input": "0" * 16, "order": 1, "after": 0, "result": {"image": "app:1", "bytes": 10**12}},
        "deploy#1": {"kind": "tool", "input": "1" * 16, "order": 2, "after": 1, "invocation": INVOCATION},
    }
    engine = {"state_version": 1, "seed": "a seed", "spent_cents": 3, "steps": steps}
    blob = {
        "checkpoint_id": CHECKPOINT,
        "schema_version": 1,
        "agent_id": AGENT,
        "created_at": AT,
        "step_index": 2,
        "step_id": "deploy",
        "status": "in_progress",
        "active_tools": [
            {"tool_name": "deploy", "invocation_id": INVOCATION, "status": "completed", "input_hash": "1" * 64, "result": True}
        ],
        "memory_context": {
            "system_prompt_hash": "e" * 64,
            "conversation_summary": None,
            "accumulated_facts": ["a fact"],
            "working_data": {"key": [1, 2.5, "three"], "$cortex": engine, **memory.pop("working_data", {})},
            "token_usage": {"prompt_tokens": 10, "completion_tokens": 3},
            **memory,
        },
        "execution_log": [
            {
                "step_index": index,
                "step_id": name,
                "started_at": AT,
                "finished_at": AT,
                "result_summary": "ok",
                "tool_calls": 0,
            }
            for index, name in enumerate(("start", "build", "deploy"))
        ],
    }
    return {**blob, "crc32": crc_of(blob)}


def same_json(text: str, damaged: str) -> bool:
    """Some changes of the text change nothing, such as E for e in a number."""
    try:
        return dumps(loads(text)) == dumps(loads(damaged))
    except ValueError:
        return False


def stored(document: str | None = None) -> StoredCheckpoint:
    return StoredCheckpoint(JOB, AGENT, "release", CHECKPOINT, document or json.dumps(json.loads(resealed(a_blob()))))
