"""From a stored checkpoint back to a journal: CRC, id, shape, segments, version, agent, blobs. A misfit is refused by name."""

from __future__ import annotations

import hashlib
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cortex_plane.durable.journal import Journal, Tail
from cortex_plane.durable.schema import RESERVED, SCHEMA_VERSION, StoredCheckpoint, ToolState, crc_of, whole
from cortex_plane.durable.segments import Part, Sealed, opened, put_together
from cortex_plane.errors import CheckpointCorrupted, InvalidInput
from cortex_plane.json import dumps, loads, normal, normal_around

Blob = dict[str, Any]
Migration = Callable[[Blob], Blob]
StateMigration = Callable[[dict[str, Any]], dict[str, Any]]

MIGRATIONS: dict[int, Migration] = {}
"""Migrations of the platform, by the version that they start from."""

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


@dataclass(frozen=True, slots=True)
class Record:
    """A verified checkpoint. `blob` is the whole document as specified, `document` the part in the job's row, `parts` the
    segments. `moved`: a migration has changed the content, so that it differs from the sealed segments."""

    blob: Blob
    document: Blob
    sealed: Sealed
    parts: list[Part]
    moved: bool = False


def checked_blob(
    stored: StoredCheckpoint, migrations: Mapping[int, Migration] = MIGRATIONS, current: int = SCHEMA_VERSION
) -> Blob:
    """The whole checkpoint in the shape of this version of the platform, with the CRC of that."""
    blob = checked_record(stored, migrations, current).blob
    rest = {name: value for name, value in blob.items() if name != "crc32"}
    return {**rest, "crc32": crc_of(rest)}


def checked_record(
    stored: StoredCheckpoint, migrations: Mapping[int, Migration] = MIGRATIONS, current: int = SCHEMA_VERSION
) -> Record:
    document = _parsed(stored.document)
    if document["checkpoint_id"] != stored.checkpoint_id:
        raise CheckpointCorrupted(
            "other_checkpoint",
            f"it is checkpoint {document['checkpoint_id']}, but the last one that was written is {stored.checkpoint_id}. "
            "It was replaced by hand, or by an older copy.",
        )
    if (version := _version(document, current)) == current:
        document = _shaped(document)
    sealed = _sealed(document)
    assert stored.segments is not None, "a checkpoint is checked with its segments"
    parts = opened(sealed, stored.segments)
    blob = _whole(document, parts)
    if version < current:
        blob = _shaped(_migrated(blob, migrations, current))
    if blob["agent_id"] != stored.agent_id:
        raise CheckpointCorrupted(
            "agent_mismatch",
            f"Agent/checkpoint mismatch: it was written by agent {blob['agent_id']}, but the job belongs to {stored.agent_id}.",
        )
    return Record(blob, document, sealed, parts, moved=version < current)


def _whole(document: Blob, parts: list[Part]) -> Blob:
    """The document expanded with the content of its segments."""
    if not parts:
        return document
    lists = put_together(document, parts)
    context = document["memory_context"]
    engine = {name: value for name, value in _engine(document).items() if name != "sealed"} | {"steps": lists.pop("steps")}
    return {**document, **lists, "memory_context": {**context, "working_data": {**context["working_data"], RESERVED: engine}}}


def _sealed(document: Blob) -> Sealed:
    try:
        return Sealed.of(document)
    except (TypeError, AttributeError, LookupError) as error:
        raise CheckpointCorrupted("shape", f"what it says of its segments is damaged: {error}") from None


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
    record: Record, blobs: Mapping[str, str], state_migrations: Mapping[int, StateMigration], renamed: Mapping[str, str]
) -> Journal:
    blob = record.blob
    engine = _with_current_state(_engine(blob), blobs, state_migrations)
    if renamed:
        engine = {**engine, "steps": {_renamed(key, renamed): entry for key, entry in engine["steps"].items()}}
    before = _engine(blob)
    changed = engine["state_version"] != before["state_version"] or engine["steps"].keys() != before["steps"].keys()
    anew = record.moved or changed
    recent = blob if anew else record.document
    steps = engine["steps"] if anew else _engine(recent)["steps"]
    recent_tools = {tool["invocation_id"]: _tool(tool) for tool in recent["active_tools"]}
    sealed_tools = {tool["invocation_id"]: _tool(tool) for tool in blob["active_tools"]} if recent is not blob else {}
    memory = blob["memory_context"]
    journal = Journal(
        seed=engine["seed"],
        state_version=engine["state_version"],
        entries=dict(engine["steps"]),
        unasked={key: whole(entry) for key, entry in engine["steps"].items()},
        tools=ChainMap(recent_tools, {key: tool for key, tool in sealed_tools.items() if key not in recent_tools}),
        blobs=dict(blobs),
        facts=tuple(memory.get("accumulated_facts", ())),
        step_index=blob["step_index"],
        step_id=blob["step_id"],
        durable_cents=engine["spent_cents"],
        granted_cents=list(engine.get("granted_cents", ())),
        repeats=engine.get("repeats", False),
        order=max((entry["order"] for entry in engine["steps"].values()), default=0),
        sealed=record.sealed.anew() if anew else record.sealed,
        tail=Tail({key: dumps(entry) for key, entry in steps.items()}, [dumps(step) for step in recent["execution_log"]]),
    )
    journal.note_places()
    return journal


def _renamed(key: str, renamed: Mapping[str, str]) -> str:
    """`fetch#0[1]/parse#2`: each `#` ends a name, and its occurrence follows. Names have no `#`."""
    *calls, last = key.split("#")
    return "#".join([*(_renamed_call(call, renamed, is_first=index == 0) for index, call in enumerate(calls)), last])


def _renamed_call(text: str, renamed: Mapping[str, str], *, is_first: bool) -> str:
    joined = text if is_first else text.lstrip("0123456789")
    joint = _JOINT.match(joined)
    name = joined[joint.end() :] if joint else joined
    return text.removesuffix(name) + renamed.get(name, name)


_JOINT = re.compile(r"(?:\[\d++\])?+/")
"""The separators between a call and its parent in an identity."""


def _parsed(document: str) -> Blob:
    """A document with all its fields and the CRC that it should have."""
    blob = _object(document)
    for name in REQUIRED:
        if name not in blob:
            raise CheckpointCorrupted("missing_field", f"Missing required field: {name}")
    _check_crc(blob)
    return blob


def _object(document: str) -> Blob:
    try:
        found = normal_around(loads(document), "checkpoint")  # jsonb writes floats from 2^64 on without their exponent.
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


def _version(blob: Blob, current: int) -> int:
    version = blob["schema_version"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CheckpointCorrupted("shape", f"schema_version is {version!r}; it must be a whole number from 1.")
    if version > current:
        raise CheckpointCorrupted(
            "future_version",
            f"Checkpoint from future version {version}; this program knows versions up to {current}. "
            "Upgrade it, then retry the job.",
        )
    return version


def _migrated(blob: Blob, migrations: Mapping[int, Migration], current: int) -> Blob:
    version = blob["schema_version"]
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


def _shaped(blob: Blob) -> Blob:
    """Drops fields that this version does not know: a newer schema removed them."""
    from cortex_plane.durable import schema as shape  # Slow to import, and most workers never resume anything.

    known: Blob = shape.without_unknown_fields(blob)
    if problem := shape.problem_with(known):
        raise CheckpointCorrupted("shape", problem)
    return known


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
    """Migrates the agent's own data to its newest version, wherever the memory is stored in the record."""
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
