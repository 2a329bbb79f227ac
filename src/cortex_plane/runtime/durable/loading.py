"""From a stored checkpoint back to a journal: shape, CRC, identity, version, agent, blobs. A misfit is refused by name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from cortex_plane.core.checkpoints import RESERVED, StoredCheckpoint, put_together
from cortex_plane.core.errors import CheckpointCorrupted, InvalidInput
from cortex_plane.core.normal_json import normal, normal_around
from cortex_plane.ports.json_text import dumps, embedded, loads
from cortex_plane.runtime.durable.entries import ToolState, whole
from cortex_plane.runtime.durable.journal import Journal
from cortex_plane.runtime.durable.snapshot import SCHEMA_VERSION, crc_of

Blob = dict[str, Any]
Migration = Callable[[Blob], Blob]
StateMigration = Callable[[dict[str, Any]], dict[str, Any]]

MIGRATIONS: dict[int, Migration] = {}
"""The platform's own, from the version that is the key to the next."""

REQUIRED = (
    "checkpoint_id",
    "schema_version",
    "agent_id",
    "created_at",
    "step_index",
    "step_id",
    "status",
    "active_tools",
    "memory_context",
    "execution_log",
    "crc32",
)


def checked_blob(
    stored: StoredCheckpoint, migrations: Mapping[int, Migration] = MIGRATIONS, current: int = SCHEMA_VERSION
) -> Blob:
    """The checkpoint in the shape of this version of the platform."""
    blob = _parsed(stored.document, stored.added)
    if blob["checkpoint_id"] != stored.checkpoint_id:
        raise CheckpointCorrupted(
            "other_checkpoint",
            f"it is checkpoint {blob['checkpoint_id']}, but the last one that was written is {stored.checkpoint_id}. "
            "It was replaced by hand, or by an older copy.",
        )
    blob = _migrated(blob, migrations, current)
    if problem := _problem_with(blob):
        raise CheckpointCorrupted("shape", problem)
    if blob["agent_id"] != stored.agent_id:
        raise CheckpointCorrupted(
            "agent_mismatch",
            f"Agent/checkpoint mismatch: it was written by agent {blob['agent_id']}, but the job belongs to {stored.agent_id}.",
        )
    return blob


def blob_digests(blob: Blob) -> list[str]:
    """Which contents the checkpoint refers to."""
    found = []
    for entry in _engine(blob).get("steps", {}).values():
        found += [part["blob"] for part in (entry, entry.get("memory") or {}) if part.get("blob")]
    return list(dict.fromkeys(found))


def check_blobs(wanted: list[str], found: Mapping[str, str]) -> None:
    for digest in wanted:
        if digest not in found:
            raise CheckpointCorrupted("blob_missing", f"the result {digest[:12]}… that it refers to is not in job_blob.")
        if hashlib.sha256(found[digest].encode()).hexdigest() != digest:
            raise CheckpointCorrupted("blob_changed", f"the result {digest[:12]}… in job_blob is not what was written.")


def journal_from(
    blob: Blob, blobs: Mapping[str, str], state_migrations: Mapping[int, StateMigration], renamed: Mapping[str, str]
) -> Journal:
    engine = _with_current_state(_engine(blob), blobs, state_migrations)
    if renamed:
        engine = {**engine, "steps": {_renamed(key, renamed): entry for key, entry in engine["steps"].items()}}
    memory = blob["memory_context"]
    journal = Journal(
        seed=engine["seed"],
        state_version=engine["state_version"],
        unasked={key: whole(entry) for key, entry in engine["steps"].items()},
        tools={tool["invocation_id"]: _tool(tool) for tool in blob["active_tools"]},
        log=[embedded(dumps(step)) for step in blob["execution_log"]],
        blobs=dict(blobs),
        facts=tuple(memory.get("accumulated_facts", ())),
        step_index=blob["step_index"],
        step_id=blob["step_id"],
        durable_cents=engine["spent_cents"],
        granted_cents=list(engine.get("granted_cents", ())),
        order=max((entry["order"] for entry in engine["steps"].values()), default=0),
    )
    for key, entry in engine["steps"].items():
        journal.keep(key, dumps(entry))
    return journal


def _renamed(key: str, renamed: Mapping[str, str]) -> str:
    return _CALL.sub(lambda call: f"{call[1] or ''}{renamed.get(call[2], call[2])}#{call[3]}", key)


_CALL = re.compile(r"((?:\[\d+\])?/)?([^#]+)#(\d+)")
"""One call in an identity: what joins it to the one around it, its name, its occurrence. Names have no `#`."""


def _parsed(document: str, added: str | None) -> Blob:
    """One document, with all its fields and the CRC that it should have; its parts are checked before they are put together."""
    blob = _sound(_object(document))
    return blob if added is None else _sound(_put_together(blob, _object(added)))


def _put_together(blob: Blob, added: Blob) -> Blob:
    try:
        return put_together(blob, added)
    except (LookupError, TypeError, AttributeError) as error:
        message = f"checkpoint_added does not fit to checkpoint: {type(error).__name__}: {error}"
        raise CheckpointCorrupted("parts_do_not_fit", message) from None


def _sound(blob: Blob) -> Blob:
    for name in REQUIRED:
        if name not in blob:
            raise CheckpointCorrupted("missing_field", f"Missing required field: {name}")
    _check_crc(blob)
    return blob


def _object(document: str) -> Blob:
    try:
        found = normal_around(loads(document), "checkpoint")  # jsonb writes floats from 2^63 on without their exponent.
    except (ValueError, InvalidInput) as error:
        raise CheckpointCorrupted("not_json", f"it is not JSON that was written here: {error}") from None
    if not isinstance(found, dict):
        raise CheckpointCorrupted("not_an_object", "Checkpoint is not a JSON object.")
    return found


def _check_crc(blob: Blob) -> None:
    stored = blob["crc32"]
    computed = crc_of({name: value for name, value in blob.items() if name != "crc32"})
    if isinstance(stored, bool) or stored != computed:
        raise CheckpointCorrupted(
            "crc_mismatch",
            f"CRC mismatch: stored={stored}, computed={computed}. Checkpoint data has been modified or partially written.",
        )


def _migrated(blob: Blob, migrations: Mapping[int, Migration], current: int) -> Blob:
    version = blob["schema_version"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CheckpointCorrupted("shape", f"schema_version is {version!r}; it must be a whole number from 1.")
    if version > current:
        raise CheckpointCorrupted(
            "future_version",
            f"Checkpoint from future version {version}; this program knows versions up to {current}. "
            "Upgrade it, then retry the job.",
        )
    while version < current:
        if version not in migrations:
            raise CheckpointCorrupted(
                "no_migration",
                f"No migration from checkpoint schema version {version} to {version + 1}. "
                "Cannot resume job. Mark as FAILED and re-submit.",
            )
        blob = migrations[version](blob)
        version = blob["schema_version"] = version + 1
    return blob


def _problem_with(blob: Blob) -> str | None:
    from cortex_plane.runtime.durable.shape import problem_with  # Slow to import, and most workers never resume anything.

    return problem_with(blob)


def _engine(blob: Blob) -> dict[str, Any]:
    engine: dict[str, Any] = blob["memory_context"].get("working_data", {}).get(RESERVED) or {
        "state_version": 1,
        "seed": blob["checkpoint_id"],
        "spent_cents": 0,
        "steps": {},
    }
    return engine


def _with_current_state(
    engine: dict[str, Any], blobs: Mapping[str, str], migrations: Mapping[int, StateMigration]
) -> dict[str, Any]:
    """The agent's own data, as its newest code wants it, in every place where the memory was noted."""
    latest = max(migrations, default=0) + 1
    version = engine["state_version"]
    if version > latest:
        raise CheckpointCorrupted(
            "future_state",
            f"The agent's data is of version {version}; this code knows versions up to {latest}. "
            "Deploy the newer code, then retry.",
        )
    if version == latest:
        return engine
    steps = {key: _with_migrated_memory(entry, blobs, migrations, version, latest) for key, entry in engine["steps"].items()}
    return {**engine, "state_version": latest, "steps": steps}


def _with_migrated_memory(
    entry: dict[str, Any], blobs: Mapping[str, str], migrations: Mapping[int, StateMigration], version: int, latest: int
) -> dict[str, Any]:
    memory = entry.get("memory")
    if memory is None:
        return entry
    data = memory["data"] if "data" in memory else loads(blobs[memory["blob"]])
    for step in range(version, latest):
        if step not in migrations:
            raise CheckpointCorrupted("no_state_migration", f"There is no state_migration({step}) for the agent's data.")
        data = migrations[step](data)
        if not isinstance(data, dict):
            raise CheckpointCorrupted("bad_state_migration", f"state_migration({step}) returned no dict.")
    kept = {name: value for name, value in memory.items() if name not in ("data", "blob")}
    return {**entry, "memory": {**kept, "data": normal(data, "data")}}


def _tool(stored: dict[str, Any]) -> ToolState:
    return ToolState(
        tool_name=stored["tool_name"],
        invocation_id=stored["invocation_id"],
        input_hash=stored["input_hash"],
        status=stored["status"],
        result=dumps(stored.get("result")),
    )
