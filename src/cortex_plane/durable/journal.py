"""The journal of a job: recorded calls, calls added by this run, and which of them are saved.

asked for:  recorded?  ── yes ──▶ answered from here
               └── no ──▶ it happens, is added to the tail, and is written before the handler goes on

raised:     held back ──▶ the handler goes on from there ──▶ recorded          the run ends with it ──▶ tried again

The tail is what a document holds of the record. When that is long, what is settled is sealed: see `segments`.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import ChainMap
from dataclasses import dataclass, field
from typing import Any

from cortex_plane.clock import as_short_text
from cortex_plane.durable import segments
from cortex_plane.durable.memory import Memory
from cortex_plane.durable.schema import RESERVED, STEP, STEPS, Blob, Entry, ToolState, packed, whole
from cortex_plane.durable.segments import NOTHING_SEALED, Sealed, around
from cortex_plane.json import dumps, embedded, loads

INLINE_BYTES = 1024
SUMMARY_LIMIT = 100
ENCODING = "json"
"""Encoding of the engine's own data."""

_INSIDE_A_STEP = re.compile(r"#\d+/")
"""In an identity. Branches of a gather have their number in brackets before the slash, and are not repeated."""

NOT_WORK = ("now", "patched")
"""Kinds of entries that do not prove that the handler survived an earlier failure."""

Spent = tuple[int, int, int]
"""Prompt tokens, completion tokens, cents: all that the job has used."""


@dataclass(slots=True)
class Tail:
    """The recent entries of a record, as JSON texts."""

    steps: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Unrecorded:
    """A failure that the handler may still end with."""

    entry: Entry
    result: str | None
    after: int
    """After how many logged steps its call began."""
    moment: int


@dataclass(slots=True)
class Journal:
    seed: str
    state_version: int = 1
    entries: dict[str, Entry | str] = field(default_factory=dict)
    """Every durable call by its identity: recorded by earlier runs or added by this one, as JSON text."""
    unasked: dict[str, Entry] = field(default_factory=dict)
    """Calls recorded by earlier runs that this run has not requested yet."""
    tools: ChainMap[str, ToolState] = field(default_factory=lambda: ChainMap({}, {}))
    """Tool calls of the tail and of segments."""
    blobs: dict[str, str | None] = field(default_factory=dict)
    """Contents of large results: those of earlier runs, and those of this run that may be requested again. None: already
    written."""
    facts: tuple[str, ...] = ()
    """All facts that earlier runs left; an entry says how many of them existed after it."""
    step_index: int = 0
    step_id: str = "start"
    memory: Memory = field(default_factory=Memory)
    spent: Spent = (0, 0, 0)
    durable_cents: int = 0
    granted_cents: list[int] = field(default_factory=list)
    """Cents that approvers have added to the job's own budget."""
    repeats: bool = False
    """The record was started over, so calls that are not in it may have been made before."""
    new_blobs: list[Blob] = field(default_factory=list)
    """Large results and segments that the next checkpoint brings."""
    order: int = 0
    """How many calls were recorded: the number of the latest."""
    tools_asked: int = 0
    """How many tool calls this run has requested, recorded or new."""
    sealed: Sealed = NOTHING_SEALED
    tail: Tail = field(default_factory=Tail)
    failures: dict[str, Unrecorded] = field(default_factory=dict)
    """Failures and denials that are not recorded yet."""
    new_in: set[str] = field(default_factory=set)
    """Scopes in which this run has begun new calls, and branches that ended, while recorded calls were not requested."""
    outside: BaseException | None = None
    """The exception that the program was handling when it called the handler, if any."""
    _aside: set[str] = field(default_factory=set)
    """Calls that began while the handler dealt with an exception."""
    _begun: dict[str, int] = field(default_factory=dict)
    """The calls that began while there were such failures, and when: counted in calls and failures."""
    _moment: int = 0
    _inside: dict[str, list[str]] = field(default_factory=dict)
    """The identities of the calls recorded inside a call."""
    _noted_spent: Spent = (0, 0, 0)
    _noted_version: int = 0
    _shown: tuple[Any, str | None, dict[str, Any]] = ([], None, {})
    _shown_version: int = 0

    # -- answering -------------------------------------------------------------------------------

    def take(self, key: str) -> Entry | None:
        """Returns the record of this identity, and sets memory and sums to their values after it."""
        if key not in self.entries:
            if self.unasked and not name_of(key).startswith("$"):
                self.new_in.add(scope_of(key))
            return None
        entry = self._entry(key)
        self._settle_failures_before(key, entry)
        self.unasked.pop(key, None)
        if entry["kind"] in STEPS:
            self.answered_for(key)
        self._remember(entry)
        return entry

    def answered_for(self, key: str) -> None:
        """Marks a call as ended: calls recorded inside it are no longer expected."""
        if self.unasked:
            for other in self._inside.get(key, ()):
                self.unasked.pop(other, None)

    def expected(self, *, aside: bool = False) -> dict[str, Entry]:
        """Recorded calls that an unchanged handler would still request. `aside`: while it handles an exception."""
        return {key: entry for key, entry in self.unasked.items() if bool(entry.get("aside")) == aside}

    def is_aside(self, key: str) -> bool:
        return key in self._aside

    def leave(self, before: int | None) -> None:
        """The handler continues outside: calls recorded inside, in a gather for example, are no longer expected."""
        self.unasked = {} if before is None else {key: entry for key, entry in self.unasked.items() if entry["order"] > before}

    def _entry(self, key: str) -> Entry:
        kept = self.entries[key]
        return whole(loads(kept) if isinstance(kept, str) else kept)

    def result_of(self, entry: Entry) -> Any:
        return self.read(entry["blob"]) if entry.get("blob") else entry.get("result")

    def read(self, digest: str) -> Any:
        content = self.blobs[digest]
        assert content is not None, "what this run has recorded outside of steps is not asked for again in it"
        return loads(content)

    def _remember(self, entry: Entry) -> None:
        if (memory := entry.get("memory")) is not None:
            data = memory["data"] if "data" in memory else self.read(memory["blob"])
            state = (self.facts[: memory["facts"]], memory.get("summary"), tuple((key, dumps(data[key])) for key in sorted(data)))
            self.memory.restore(state)
            self._noted_version = self.memory.version
        if (spent := entry.get("spent")) is not None:
            self.spent = self._noted_spent = (spent[0], spent[1], spent[2])

    # -- recording -------------------------------------------------------------------------------

    def put(
        self, key: str, entry: Entry, result: str | None = None, after: int | None = None, *, is_denial: bool = False
    ) -> None:
        """Adds or replaces an entry; `result` is JSON text, stored as a blob when it is large. Not saved yet.

        An entry has its order and the number of logged steps before it; a fork cuts there. A failure or denial is held back
        until the handler makes a later call that is recorded: if the run ends before that, the next run repeats the call."""
        began = self.step_index if after is None else after
        if "error" in entry or is_denial:
            self._moment += 1
            self.failures[key] = Unrecorded(entry, result, began, self._moment)
        else:
            self._settle_failures_before(key, entry)
            self._put(key, entry, result, began)

    def _put(self, key: str, entry: Entry, result: str | None, after: int) -> None:
        self.order += 1
        if key in self.entries:  # Data noted when a tool call began is kept when it ends.
            entry |= {name: noted for name, noted in self._entry(key).items() if name in ("memory", "spent")}
        entry["order"] = self.order
        entry["after"] = after
        if key in self._aside:
            entry["aside"] = True
        if result is not None:
            entry |= self.stored(key, result)
        if self.memory.version != self._noted_version:
            entry["memory"] = self._memory_now(key)
        if self.spent != self._noted_spent:
            entry["spent"] = list(self.spent)
            self._noted_spent = self.spent
        self._keep(key, dumps(packed(entry, result)))

    def stored(self, key: str, text: str, name: str = "result") -> dict[str, Any]:
        """The text itself, or a reference to its blob."""
        if len(text) <= INLINE_BYTES:
            return {name: embedded(text)}
        return {"blob": self.keep_apart(key, text)}

    def keep_apart(self, key: str, text: str) -> str:
        """Called when the entries are written. Keeps the results recorded inside a step that may be repeated; drops the
        others, so that a long run does not hold every large result in memory."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest not in self.blobs:
            self.new_blobs.append(Blob(digest, text))
        if _INSIDE_A_STEP.search(key):
            self.blobs[digest] = text
        else:
            self.blobs.setdefault(digest, None)
        return digest

    def _memory_now(self, key: str) -> dict[str, Any]:
        facts, summary, data = self.memory.state()
        self._noted_version = self.memory.version
        noted = {"facts": len(facts), "summary": summary}
        return noted | self.stored(key, dumps({name: embedded(text) for name, text in data}), "data")

    def use(self, prompt_tokens: int, completion_tokens: int, cents: int) -> None:
        prompt, completion, spent = self.spent
        self.spent = (prompt + prompt_tokens, completion + completion_tokens, spent + cents)

    def log_step(self, step_id: str, started_at: int, finished_at: int, result: str | None, tool_calls: int) -> None:
        self.begin_log(started_at)
        self.step_index += 1
        self.step_id = step_id
        self.tail.log.append(dumps(_logged(self.step_index, step_id, started_at, finished_at, _summary(result), tool_calls)))

    def begin_log(self, at: int) -> None:
        """The implicit first step, so that the blob always has one."""
        if not self.tail.log and not self.sealed.logged:
            self.tail.log.append(dumps(_logged(0, "start", at, at, "started", 0)))

    def forget_inside(self, key: str) -> int:
        """A finished step answers for all that was recorded inside of it. Returns how many tool calls that were."""
        self.forget_failures(f"{key}/")
        tools = 0
        for other in self._inside.pop(key, ()):
            if other in self.entries:
                entry = self._entry(other)
                self._drop(other)
                self.forget_tool(entry.get("invocation"))
                tools += entry.get("tools", 1 if entry["kind"] == "tool" else 0)
        return tools

    def forget_tool(self, invocation_id: str | None) -> None:
        if invocation_id is not None:
            for known in self.tools.maps:
                known.pop(invocation_id, None)

    def _keep(self, key: str, text: str) -> None:
        if key not in self.entries:
            self._note_place(key)
        self.entries[key] = self.tail.steps[key] = text

    def note_places(self) -> None:
        """Reads a blob that an earlier run left."""
        for key in self.entries:
            self._note_place(key)

    def _note_place(self, key: str) -> None:
        if key.count("#") > 1:
            for outer in around(key):
                self._inside.setdefault(outer, []).append(key)

    def _drop(self, key: str) -> None:
        self.entries.pop(key, None)
        self.tail.steps.pop(key, None)
        self.unasked.pop(key, None)

    # -- failures --------------------------------------------------------------------------------

    def begin(self, key: str) -> None:
        """A durable call or a gather begins: the handler has survived the failures before it."""
        if sys.exception() is not self.outside or (self._aside and any(outer in self._aside for outer in around(key))):
            self._aside.add(key)
        if self.failures:
            self._moment += 1
            self._begun[key] = self._moment

    def _settle_failures_before(self, key: str, entry: Entry) -> None:
        """Records held-back failures when this call is recorded: the handler may depend on them."""
        if not self.failures or entry.get("kind") in NOT_WORK:
            return
        for call in (*around(key), key):
            if (begun := self._begun.get(call)) is not None:
                path = scope_of(call)
                for failed in [one for one, it in self.failures.items() if it.moment < begun and scope_of(one).startswith(path)]:
                    it = self.failures.pop(failed)
                    self._put(failed, it.entry, it.result, it.after)
        if not self.failures:
            self._begun.clear()

    def forget_failures(self, path: str) -> None:
        """Forgets failures inside a step that is tried again or has failed. Failures that the step survived are recorded and
        stay."""
        for key in [key for key in self.failures if key.startswith(path)]:
            del self.failures[key]

    def try_again(self, key: str) -> bool:
        """Takes a recorded failure back: the next run makes the call again. Returns whether there was one."""
        if key not in self.entries or "error" not in (entry := self._entry(key)):
            return False
        del entry["error"]
        if entry["kind"] in ("tool", "call"):  # Keep its id and its child: a repeated call has the same ones.
            self._keep(key, dumps(entry))
        elif key in self.tail.steps:
            self._drop(key)
            return True
        else:
            self._keep(key, dumps({"order": entry["order"], "again": True}))
            del self.entries[key]
        self.unasked.pop(key, None)
        return True

    # -- the parts of a checkpoint ----------------------------------------------------------------

    def parts(self, system_prompt_hash: str) -> dict[str, Any]:
        """Returns the data for the document: the memory and the tail. Threads may count tokens and change the memory
        meanwhile, so each value is read once."""
        spent, (facts, summary, data) = self.spent, self._shown_memory()
        engine = {
            "encoding": ENCODING,
            "state_version": self.state_version,
            "seed": self.seed,
            "spent_cents": spent[2],
            "steps": {key: embedded(text) for key, text in self.tail.steps.items()},
        }
        if self.granted_cents:
            engine["granted_cents"] = self.granted_cents
        if self.repeats:
            engine["repeats"] = True
        if self.sealed.last:
            engine["sealed"] = self.sealed.as_json()
        return {
            "active_tools": [tool.as_json() for tool in self.tools.maps[0].values()],
            "execution_log": [embedded(text) for text in self.tail.log],
            "memory_context": {
                "system_prompt_hash": system_prompt_hash,
                "conversation_summary": summary,
                "accumulated_facts": facts,
                "working_data": {**data, RESERVED: engine},
                "token_usage": {"prompt_tokens": spent[0], "completion_tokens": spent[1]},
            },
        }

    def _shown_memory(self) -> tuple[Any, str | None, dict[str, Any]]:
        if self._shown_version != (version := self.memory.version):
            facts, summary, data = self.memory.state()
            self._shown = (embedded(dumps(list(facts))), summary, {key: embedded(text) for key, text in data})
            self._shown_version = version
        return self._shown

    def seal(self) -> bool:
        """Moves settled entries from the tail to segments if there are enough of them. Entries that can still change stay."""
        tail, tools = self.tail, self.tools.maps[0]
        settled: dict[str, str | None] = {}
        for key, text in tail.steps.items():
            is_settled, invocation = self._settled(loads(text))
            if is_settled:
                settled[key] = invocation
        if sum(len(tail.steps[key]) for key in settled) + sum(map(len, tail.log)) < segments.SMALLEST_BYTES:
            return False
        piece, size = _Piece(log=tail.log), sum(map(len, tail.log))
        for key, invocation in settled.items():
            if size > segments.LARGEST_BYTES:
                self._seal(piece)
                piece, size = _Piece(), 0
            piece.steps[key] = tail.steps.pop(key)
            size += len(piece.steps[key])
            if invocation is not None and invocation in tools:
                tool = self.tools.maps[1][invocation] = tools.pop(invocation)
                piece.tools.append(dumps(tool.as_json()))
        self._seal(piece)
        tail.log = []
        return True

    def _seal(self, piece: _Piece) -> None:
        self.sealed, segment = self.sealed.sealing(piece.log, piece.tools, piece.steps)
        self.new_blobs.append(segment)

    def _settled(self, entry: Entry) -> tuple[bool, str | None]:
        """Whether a written entry is final, and the tool call that belongs to it."""
        if "error" in entry or "again" in entry:
            return True, entry.get("invocation")
        match entry.get("kind", STEP):
            case "tool":
                tool = self.tools.get(entry["invocation"])
                return tool is not None and tool.status == "completed", entry["invocation"]
            case "call" | "approval":
                return "result" in entry or "blob" in entry, None
            case _:
                return True, None


@dataclass(slots=True)
class _Piece:
    """The entries of one segment."""

    log: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    steps: dict[str, str] = field(default_factory=dict)


def scope_of(key: str) -> str:
    """The path of the scope of a call. The last part, its name, has no `#` and may contain a slash."""
    outer = around(key)
    if not outer:
        return ""
    return key[: key.index("/", len(outer[-1])) + 1]


def name_of(key: str) -> str:
    return key[len(scope_of(key)) :].rpartition("#")[0]


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
