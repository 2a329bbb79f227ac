"""What is recorded of a job, what this run has added to it, and what of that is not durable yet.

asked for:  recorded?  ── yes ──▶ answered from here
               └── no ──▶ it happens, is added here, and is written before the handler goes on
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from cortex_plane.core.checkpoints import RESERVED, Blob
from cortex_plane.core.instants import as_short_text
from cortex_plane.ports.json_text import dumps, embedded, loads
from cortex_plane.runtime.durable.additions import Additions
from cortex_plane.runtime.durable.entries import Entry, ToolState, packed, whole
from cortex_plane.runtime.durable.memory import Memory

INLINE_BYTES = 1024
SUMMARY_LIMIT = 100

Spent = tuple[int, int, int]
"""Prompt tokens, completion tokens, cents: all that the job has used."""


@dataclass(slots=True)
class Journal:
    seed: str
    state_version: int = 1
    entries: dict[str, str] = field(default_factory=dict)
    """Every durable call by its identity, as JSON text: what earlier runs left, and what this one has added."""
    unasked: dict[str, Entry] = field(default_factory=dict)
    """What earlier runs left and this one has not asked for yet."""
    tools: dict[str, ToolState] = field(default_factory=dict)
    log: list[Any] = field(default_factory=list)
    blobs: dict[str, str] = field(default_factory=dict)
    """Contents of large results that an earlier run left."""
    facts: tuple[str, ...] = ()
    """All facts that an earlier run left; an entry says how many of them there were after it."""
    step_index: int = 0
    step_id: str = "start"
    memory: Memory = field(default_factory=Memory)
    spent: Spent = (0, 0, 0)
    durable_cents: int = 0
    granted_cents: list[int] = field(default_factory=list)
    """What people have added to the job's own budget."""
    new_blobs: list[Blob] = field(default_factory=list)
    order: int = 0
    """How many calls were recorded: the number of the latest."""
    tools_asked: int = 0
    """How many tool calls this run has asked for, answered or made."""
    unwritten_failures: set[str] = field(default_factory=set)
    additions: Additions = field(default_factory=Additions)
    _noted_spent: Spent = (0, 0, 0)
    _noted_version: int = 0
    _embedded: dict[str, Any] = field(default_factory=dict)
    _nested: bool = False
    """Whether anything was recorded inside of something else."""
    _shown: tuple[Any, str | None, dict[str, Any]] = ([], None, {})
    _shown_version: int = 0

    # -- answering -------------------------------------------------------------------------------

    def take(self, key: str) -> Entry | None:
        """What is recorded under this identity. The memory and the sums become what they were after it."""
        if key not in self.entries:
            return None
        entry: Entry = self.unasked.pop(key) if key in self.unasked else whole(loads(self.entries[key]))
        self._remember(entry)
        return entry

    def result_of(self, entry: Entry) -> Any:
        return self.read(entry["blob"]) if entry.get("blob") else entry.get("result")

    def read(self, digest: str) -> Any:
        return loads(self.blobs[digest])

    def _remember(self, entry: Entry) -> None:
        if (memory := entry.get("memory")) is not None:
            data = memory["data"] if "data" in memory else self.read(memory["blob"])
            state = (self.facts[: memory["facts"]], memory.get("summary"), tuple((key, dumps(data[key])) for key in sorted(data)))
            self.memory.restore(state)
            self._noted_version = self.memory.version
        if (spent := entry.get("spent")) is not None:
            self.spent = self._noted_spent = (spent[0], spent[1], spent[2])

    # -- recording -------------------------------------------------------------------------------

    def put(self, key: str, entry: Entry, result: str | None = None, after: int | None = None) -> None:
        """Adds or replaces an entry; `result` is JSON text, kept apart when it is large. Not durable yet.

        An entry says in which order it was recorded, and after how many logged steps it began: a fork cuts there."""
        self.order += 1
        if key in self.entries:  # What was noted when a tool call began still holds when it has ended.
            entry |= {name: noted for name, noted in loads(self.entries[key]).items() if name in ("memory", "spent")}
        entry["order"] = self.order
        entry["after"] = self.step_index if after is None else after
        if result is not None:
            entry |= self.stored(result)
        if self.memory.version != self._noted_version:
            entry["memory"] = self._memory_now()
        if self.spent != self._noted_spent:
            entry["spent"] = list(self.spent)
            self._noted_spent = self.spent
        self.keep(key, dumps(packed(entry, result)))
        if "error" in entry:
            self.unwritten_failures.add(key)

    def stored(self, text: str, name: str = "result") -> dict[str, Any]:
        """The text itself, or where it is kept apart."""
        if len(text) <= INLINE_BYTES:
            return {name: embedded(text)}
        return {"blob": self.keep_apart(text)}

    def keep_apart(self, text: str) -> str:
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest not in self.blobs:
            self.blobs[digest] = text
            self.new_blobs.append(Blob(digest, text))
        return digest

    def _memory_now(self) -> dict[str, Any]:
        facts, summary, data = self.memory.state()
        self._noted_version = self.memory.version
        noted = {"facts": len(facts), "summary": summary}
        return noted | self.stored(dumps({key: embedded(text) for key, text in data}), "data")

    def use(self, prompt_tokens: int, completion_tokens: int, cents: int) -> None:
        prompt, completion, spent = self.spent
        self.spent = (prompt + prompt_tokens, completion + completion_tokens, spent + cents)

    def log_step(self, step_id: str, started_at: int, finished_at: int, result: str | None, tool_calls: int) -> None:
        self.begin_log(started_at)
        self.step_index += 1
        self.step_id = step_id
        self.log.append(embedded(dumps(_logged(self.step_index, step_id, started_at, finished_at, _summary(result), tool_calls))))

    def begin_log(self, at: int) -> None:
        """The implicit first step, so that the blob always has one."""
        if not self.log:
            self.log.append(embedded(dumps(_logged(0, "start", at, at, "started", 0))))

    def forget_inside(self, key: str) -> None:
        """A finished step answers for all that was recorded inside of it."""
        if not self._nested:
            return
        for other in [other for other in self.entries if other.startswith(f"{key}/")]:
            entry = loads(self.entries[other])
            self._drop(other)
            self.forget_tool(entry.get("invocation"))

    def forget_tool(self, invocation_id: str | None) -> None:
        if invocation_id is not None and self.tools.pop(invocation_id, None) is not None:
            self.additions.something_was_dropped()

    def forget_failures(self, path: str) -> None:
        """What failed last inside a step that is tried again; failures that the step lived with are durable, and stay."""
        for key in [key for key in self.unwritten_failures if key.startswith(path)]:
            self.unwritten_failures.discard(key)
            self._drop(key)

    def keep(self, key: str, text: str) -> None:
        self.entries[key] = text
        self._embedded[key] = self.additions.steps[key] = embedded(text)
        self._nested = self._nested or "/" in key

    def _drop(self, key: str) -> None:
        self.entries.pop(key, None)
        self._embedded.pop(key, None)
        self.unasked.pop(key, None)
        self.additions.something_was_dropped()

    # -- the parts of a checkpoint ----------------------------------------------------------------

    def whole_parts(self, system_prompt_hash: str) -> dict[str, Any]:
        spent, (facts, summary, data) = self.spent, self._shown_memory()
        engine = {
            "state_version": self.state_version,
            "seed": self.seed,
            "spent_cents": spent[2],
            "steps": self._embedded,
        }
        if self.granted_cents:
            engine["granted_cents"] = self.granted_cents
        return {
            "active_tools": [tool.as_json() for tool in self.tools.values()],
            "execution_log": self.log,
            "memory_context": {
                "system_prompt_hash": system_prompt_hash,
                "conversation_summary": summary,
                "accumulated_facts": facts,
                "working_data": {**data, RESERVED: engine},
                "token_usage": {"prompt_tokens": spent[0], "completion_tokens": spent[1]},
            },
        }

    def added_parts(self, whole: dict[str, Any]) -> dict[str, Any] | None:
        """Of the same parts only what is new since they were written whole; None if they must be.

        Made of `whole`, and not of what there is now: functions in threads count tokens and remember things meanwhile."""
        added = self.additions
        if added.log_from is None:
            return None
        context = {**whole["memory_context"]}
        data = {**context["working_data"], RESERVED: {**context["working_data"][RESERVED], "steps": added.steps}}
        if self._shown_version == added.memory_version:
            del context["accumulated_facts"], context["conversation_summary"]
            data = {RESERVED: data[RESERVED]}
        return {
            "active_tools": [tool.as_json() for tool in added.changed(self.tools)],
            "execution_log": self.log[added.log_from :],
            "log_from": added.log_from,
            "memory_context": {**context, "working_data": data},
        }

    def written_whole(self) -> None:
        self.additions.begin(len(self.log), self.tools, self._shown_version)

    def _shown_memory(self) -> tuple[Any, str | None, dict[str, Any]]:
        if self._shown_version != (version := self.memory.version):
            facts, summary, data = self.memory.state()
            self._shown = (embedded(dumps(list(facts))), summary, {key: embedded(text) for key, text in data})
            self._shown_version = version
        return self._shown


def _logged(index: int, step_id: str, started_at: int, finished_at: int, summary: str, tool_calls: int) -> dict[str, Any]:
    return {
        "step_index": index,
        "step_id": step_id,
        "started_at": as_short_text(started_at),
        "finished_at": as_short_text(finished_at),
        "result_summary": summary,
        "tool_calls": tool_calls,
    }


def _summary(result: str | None) -> str:
    if result is None:
        return "failed"
    return result if len(result) <= SUMMARY_LIMIT else f"{result[:SUMMARY_LIMIT]}…"
