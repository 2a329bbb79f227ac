"""A new job from the beginning of an old one: everything that was recorded before a named step, and nothing after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cortex_plane.durable.schema import RESERVED, resealed, whole
from cortex_plane.durable.segments import Sealed, around
from cortex_plane.errors import InvalidInput
from cortex_plane.json import loads

if TYPE_CHECKING:
    from cortex_plane.durable.load import Blob, Record


def forked(record: Record, blobs: dict[str, str], from_step: str, checkpoint_id: str) -> str:
    """Builds the document of the fork.

    `from_step` is a step name, with `#2` for its second occurrence: the first step that runs again. Segments of the original
    that lie entirely before it are referenced; the other entries taken over are copied."""
    blob = record.blob
    engine = blob["memory_context"].get("working_data", {}).get(RESERVED, {"steps": {}})
    cut_key = _key(blob, engine["steps"], from_step)
    cut = whole(engine["steps"][cut_key])
    inside = f"{cut_key}/"
    unsettled = {tool["invocation_id"] for tool in blob["active_tools"] if tool["status"] != "completed"}
    kept = {
        key: entry
        for key, entry in engine["steps"].items()
        if not key.startswith(inside)
        and _is_before(entry, cut)
        and (entry.get("invocation") not in unsettled or entry.get("error"))
    }
    log = [step for step in blob["execution_log"] if step["step_index"] <= cut["after"]]
    invocations = {entry.get("invocation") for entry in kept.values()}
    spent = _last(kept, "spent") or [0, 0, 0]
    shared, last_log = _shared(record, kept, log), log[-1]
    engine = {**engine, **shared.pop("engine"), "spent_cents": spent[2]}
    return resealed(
        {
            **blob,
            "checkpoint_id": checkpoint_id,
            "status": "in_progress",
            "step_index": last_log["step_index"],
            "step_id": last_log["step_id"],
            "execution_log": log[shared["logged"] :],
            "active_tools": [
                tool
                for tool in blob["active_tools"]
                if tool["invocation_id"] in invocations and tool != shared["tools"].get(tool["invocation_id"])
            ],
            "memory_context": {
                **blob["memory_context"],
                **_memory(blob, kept, blobs, engine),
                "token_usage": {"prompt_tokens": spent[0], "completion_tokens": spent[1]},
            },
        }
    )


def _shared(record: Record, kept: dict[str, Any], log: list[Any]) -> dict[str, Any]:
    """Which segments the fork shares: the first ones, as long as everything in them is taken over."""
    sealed = Sealed(record.sealed.first, record.sealed.first - 1)
    shared, tools = dict[str, Any](), dict[str, Any]()
    for part in [] if record.moved else record.parts:
        logged = sealed.logged + len(part["execution_log"])
        if logged > len(log) or not all(_is_covered(key, entry, kept) for key, entry in part["steps"].items()):
            break
        shared |= part["steps"]
        tools |= {tool["invocation_id"]: tool for tool in part["active_tools"]}
        sealed = Sealed(sealed.first, sealed.last + 1, sealed.steps + len(part["steps"]), logged, part["sha256"])
    steps = {key: entry for key, entry in kept.items() if shared.get(key) != entry}
    engine = {"steps": steps} if sealed.sha256 is None else {"steps": steps, "sealed": sealed.as_json()}
    return {"engine": engine, "logged": sealed.logged, "tools": tools}


def _is_covered(key: str, entry: dict[str, Any], kept: dict[str, Any]) -> bool:
    """Whether a sealed entry may stay in a fork: it is taken over, or another entry that is taken over replaces it."""
    return key in kept or any(outer in kept and "error" not in kept[outer] for outer in around(key))


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
        raise InvalidInput(
            f'There is no recorded step "{wanted}" to fork from. Recorded: {known}. '
            "To continue a failed job from the failed step: cortex jobs resume ID",
            field="from_step",
        )
    return key


def _is_before(entry: dict[str, Any], cut: dict[str, Any]) -> bool:
    """A child that was called and has not ended belongs to the original."""
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
