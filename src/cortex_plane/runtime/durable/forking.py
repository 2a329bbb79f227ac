"""A new job from the beginning of an old one: everything that was recorded before a named step, and nothing after it."""

from __future__ import annotations

from typing import Any

from cortex_plane.core.checkpoints import RESERVED
from cortex_plane.core.errors import InvalidInput
from cortex_plane.ports.json_text import loads
from cortex_plane.runtime.durable.entries import whole
from cortex_plane.runtime.durable.loading import Blob
from cortex_plane.runtime.durable.snapshot import resealed


def forked(blob: Blob, blobs: dict[str, str], from_step: str, checkpoint_id: str) -> str:
    """The document of the fork. `from_step` is a name, with `#2` for its second time; it is the first step that runs anew."""
    engine = blob["memory_context"].get("working_data", {}).get(RESERVED, {"steps": {}})
    cut_key = _key(blob, engine["steps"], from_step)
    cut = whole(engine["steps"][cut_key])
    inside = f"{cut_key}/"
    kept = {key: entry for key, entry in engine["steps"].items() if not key.startswith(inside) and _is_before(entry, cut)}
    log = [step for step in blob["execution_log"] if step["step_index"] <= cut["after"]]
    invocations = {entry.get("invocation") for entry in kept.values()}
    spent = _last(kept, "spent") or [0, 0, 0]
    return resealed(
        {
            **blob,
            "checkpoint_id": checkpoint_id,
            "status": "in_progress",
            "step_index": log[-1]["step_index"],
            "step_id": log[-1]["step_id"],
            "execution_log": log,
            "active_tools": [tool for tool in blob["active_tools"] if tool["invocation_id"] in invocations],
            "memory_context": {
                **blob["memory_context"],
                **_memory(blob, kept, blobs, {**engine, "steps": kept, "spent_cents": spent[2]}),
                "token_usage": {"prompt_tokens": spent[0], "completion_tokens": spent[1]},
            },
        }
    )


def steps_of(blob: Blob) -> list[str]:
    """The steps that a fork can begin at, in the order in which they were recorded."""
    steps = blob["memory_context"].get("working_data", {}).get(RESERVED, {}).get("steps", {})
    named = [(entry["order"], key) for key, entry in steps.items() if not _is_nested(key) and not key.startswith("$")]
    return [key for _, key in sorted(named)]


def _is_nested(key: str) -> bool:
    """A name may hold a slash, but never a number sign: each level of an identity has one."""
    return key.count("#") > 1


def _key(blob: Blob, steps: dict[str, Any], wanted: str) -> str:
    key = wanted if "#" in wanted else f"{wanted}#1"
    if key not in steps or _is_nested(key):
        known = ", ".join(steps_of(blob)) or "none"
        raise InvalidInput(f'There is no recorded step "{wanted}" to fork from. Recorded: {known}.', field="from_step")
    return key


def _is_before(entry: dict[str, Any], cut: dict[str, Any]) -> bool:
    """A call that was begun and not settled belongs to the original: its child, its effect, its sleep."""
    settled = "result" in entry or entry.get("blob") or entry.get("error")
    unsettled = whole(entry)["kind"] == "call" and not settled
    return bool(entry["order"] < cut["order"]) and not unsettled


def _last(kept: dict[str, Any], field: str) -> Any:
    found = [(entry["order"], entry[field]) for entry in kept.values() if entry.get(field) is not None]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _memory(blob: Blob, kept: dict[str, Any], blobs: dict[str, str], engine: dict[str, Any]) -> dict[str, Any]:
    noted = _last(kept, "memory") or {"facts": 0, "summary": None, "data": {}}
    data = noted["data"] if "data" in noted else loads(blobs[noted["blob"]])
    return {
        "accumulated_facts": blob["memory_context"].get("accumulated_facts", [])[: noted["facts"]],
        "conversation_summary": noted.get("summary"),
        "working_data": {**data, RESERVED: engine},
    }
