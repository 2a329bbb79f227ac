"""A long checkpoint is written whole now and then, and by what was added in between: together they are what was recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex_plane import CheckpointCorrupted
from cortex_plane.adapters.system import new_id
from cortex_plane.core.agents import AgentConfig
from cortex_plane.core.checkpoints import Checkpoint, StoredCheckpoint
from cortex_plane.ports.json_text import dumps, loads
from cortex_plane.runtime.durable import additions, recorder
from cortex_plane.runtime.durable.entries import ToolState
from cortex_plane.runtime.durable.loading import checked_blob
from cortex_plane.runtime.durable.recorder import Recorder
from cortex_plane.runtime.durable.replaying import _services
from cortex_plane.runtime.durable.snapshot import sealed
from cortex_plane.runtime.outbox import Mailbox
from cortex_plane.testing import ManualClock
from tests.durable.blobs import AGENT, JOB, same_json


async def a_recorder() -> Recorder:
    claimed: Any = type("Claimed", (), {"job_id": JOB, "run_id": new_id()})
    return Recorder(claimed, AGENT, AgentConfig(), "e" * 64, _services(ManualClock(), new_id, Path()))


class Record:
    """One run's recorder, the mailbox of what it writes, and the two columns of its job."""

    def __init__(self, written: Iterator[bool]) -> None:
        """`written` says of each checkpoint that is posted whether it is written before the next is."""
        self.recorder = asyncio.run(a_recorder())
        self.written = written
        self.box = Mailbox()
        self.newest: Checkpoint | None = None
        self.whole: str | None = None
        self.added: str | None = None
        self.numbers = iter(range(1, 1_000_000))

    def step(self, size: int) -> None:
        name = f"step {next(self.numbers)}"
        journal, result = self.recorder.journal, dumps("x" * size)
        journal.put(f"{name}#1", {"kind": "step", "input": "0" * 16}, result)
        journal.log_step(name, 0, 1, result, 0)

    def outer(self, inside: int) -> None:
        """A step with steps in it, which it answers for once it is done."""
        name = f"outer {next(self.numbers)}"
        for number in range(inside):
            self.recorder.journal.put(f"{name}#1/inner#{number + 1}", {"kind": "step", "input": "0" * 16}, "1")
            self.save()
        self.recorder.journal.forget_inside(f"{name}#1")
        self.recorder.journal.put(f"{name}#1", {"kind": "step", "input": "0" * 16}, "2")

    def tool(self, status: str) -> None:
        name, tool = f"tool {next(self.numbers)}", ToolState("call", new_id(), "1" * 64)
        self.recorder.journal.tools[tool.invocation_id] = tool
        entry = {"kind": "tool", "invocation": tool.invocation_id, "input": "1" * 16}
        self.recorder.journal.put(f"{name}#1", dict(entry))
        self.save()
        tool.status = status
        if status == "completed":
            tool.result = '{"done":true}'
        if status == "forgotten":
            self.recorder.journal.forget_tool(tool.invocation_id)
        self.recorder.journal.put(f"{name}#1", dict(entry))

    def remember(self, text: str) -> None:
        memory = self.recorder.journal.memory
        memory.add_fact(text)
        memory.data[text or "none"] = {"is": text}

    def forget(self, _: str) -> None:
        data = self.recorder.journal.memory.data
        for key in list(data)[:1]:
            del data[key]

    def use(self, tokens: int) -> None:
        self.recorder.journal.use(tokens, 2 * tokens, 1)

    def save(self) -> None:
        self.newest = self.recorder.snapshot("somewhere", "in_progress")
        self.box.take(self.newest)
        if next(self.written):
            self.write()
            self.check()

    def write(self) -> None:
        """What a store does with what was posted."""
        checkpoint, self.box.checkpoint = self.box.checkpoint, None
        if checkpoint is not None:
            self.whole, self.added = (checkpoint.whole or self.whole), checkpoint.added

    def check(self) -> None:
        assert self.newest is not None
        assert self.whole is not None
        found = StoredCheckpoint(JOB, AGENT, "release", self.newest.checkpoint_id, self.whole, self.added)
        assert checked_blob(found) == loads(self.newest.document)


CHANGES = st.one_of(
    st.tuples(st.just("step"), st.integers(0, 900)),
    st.tuples(st.just("outer"), st.integers(0, 3)),
    st.tuples(st.just("tool"), st.sampled_from(["running", "completed", "failed", "forgotten"])),
    st.tuples(st.just("remember"), st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=30)),
    st.tuples(st.just("forget"), st.just("")),
    st.tuples(st.just("use"), st.integers(0, 9)),
)


WRITTEN = st.lists(st.booleans(), min_size=1, max_size=12).filter(any)


@given(st.lists(CHANGES, max_size=40), WRITTEN, st.sampled_from([0, 0, 3000]), st.integers(500, 6000))
@settings(max_examples=250)
def test_both_parts_are_the_newest_document_whatever_was_recorded(
    changes: list[tuple[str, Any]], written: list[bool], whole_below: int, longest: int
) -> None:
    """Checkpoints that are posted while one is written are merged into one, as the outbox does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(additions, "WHOLE_BELOW_BYTES", whole_below)
        patch.setattr(additions, "LONGEST_BYTES", longest)
        record = Record(cycle(written))
        for change, value in changes:
            getattr(record, change)(value)
            record.save()


def test_what_threads_count_and_remember_while_a_checkpoint_is_made_is_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain function that runs as a step does so in a thread, at any moment of this."""
    monkeypatch.setattr(additions, "WHOLE_BELOW_BYTES", 0)
    record = Record(repeat(True))

    def sealed_meanwhile(blob: Any) -> Any:
        sealed_blob = sealed(blob)
        record.use(7)
        record.remember(f"fact {next(record.numbers)}")
        return sealed_blob

    monkeypatch.setattr(recorder, "sealed", sealed_meanwhile)
    for number in range(60):
        record.step(number)
        record.save()
        record.save()


def parts() -> StoredCheckpoint:
    """A checkpoint of which a part was added."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(additions, "WHOLE_BELOW_BYTES", 0)
        record = Record(repeat(True))
        for change, value in (("step", 3), ("tool", "completed"), ("step", 3)):
            getattr(record, change)(value)
            record.save()
    assert record.newest is not None
    assert record.whole is not None
    assert record.added is not None
    return StoredCheckpoint(JOB, AGENT, "release", record.newest.checkpoint_id, record.whole, record.added)


PARTS = parts()


@given(st.data(), st.booleans())
@settings(max_examples=400)
def test_no_changed_byte_of_either_part_goes_unnoticed(data: st.DataObject, of_whole: bool) -> None:
    text = PARTS.document if of_whole else str(PARTS.added)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(min_codepoint=32, max_codepoint=126).filter(lambda letter: letter != text[place]))
    damaged = text[:place] + other + text[place + 1 :]
    document, added = (damaged, PARTS.added) if of_whole else (PARTS.document, damaged)
    stored = StoredCheckpoint(JOB, AGENT, "release", PARTS.checkpoint_id, document, added)

    if same_json(text, damaged):
        return
    with pytest.raises(CheckpointCorrupted):
        checked_blob(stored)


@given(st.sampled_from(sorted(loads(str(PARTS.added)))))
def test_no_field_of_what_was_added_can_be_dropped(name: str) -> None:
    added = {field: value for field, value in loads(str(PARTS.added)).items() if field != name}

    with pytest.raises(CheckpointCorrupted):
        checked_blob(StoredCheckpoint(JOB, AGENT, "release", PARTS.checkpoint_id, PARTS.document, dumps(added)))


@pytest.mark.parametrize("added", ["[]", "null", "{}", '{"memory_context":1}', '{"memory_context":{"working_data":[]}}', "{"])
def test_what_was_never_added_is_refused_by_name(added: str) -> None:
    with pytest.raises(CheckpointCorrupted) as refused:
        checked_blob(StoredCheckpoint(JOB, AGENT, "release", PARTS.checkpoint_id, PARTS.document, added))
    assert refused.value.kind in ("not_json", "not_an_object", "parts_do_not_fit")


def test_neither_part_is_taken_for_the_checkpoint_alone() -> None:
    for document in (PARTS.document, str(PARTS.added)):
        with pytest.raises(CheckpointCorrupted):
            checked_blob(StoredCheckpoint(JOB, AGENT, "release", PARTS.checkpoint_id, document))
