"""A long record is in a document and in sealed segments: together they are what was recorded, and any damage is noticed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex_plane import CheckpointCorrupted
from cortex_plane.agents.model import AgentConfig
from cortex_plane.durable import checkpoint as recorder
from cortex_plane.durable import segments
from cortex_plane.durable.checkpoint import Recorder
from cortex_plane.durable.journal import Journal
from cortex_plane.durable.load import checked_blob, checked_record, journal_from
from cortex_plane.durable.replay import _services
from cortex_plane.durable.schema import Blob, Checkpoint, StoredCheckpoint, ToolState, with_crc
from cortex_plane.ids import new_id
from cortex_plane.json import dumps, loads
from cortex_plane.testing import ManualClock
from cortex_plane.worker.outbox import PendingWrites
from tests.durable.blobs import AGENT, JOB, same_json

NEVER = 10**9


async def a_recorder(journal: Journal, last_id: str | None) -> Recorder:
    claimed: Any = type("Claimed", (), {"job_id": JOB, "run_id": new_id(), "cleanup_seconds": None})
    no_store: Any = None
    services = _services(no_store, ManualClock(), new_id, Path(), lambda name: None)
    return Recorder(claimed, AGENT, AgentConfig(), "e" * 64, services, journal, last_id)


class Scribe:
    """A run's recorder, its pending writes, and what a store then has of its job."""

    def __init__(self, written: Iterator[bool], seal_above: int) -> None:
        """`written` says of each checkpoint that is posted whether it is written before the next is."""
        self.recorder = asyncio.run(a_recorder(Journal(seed="a seed"), None))
        self.written, self.seal_above = written, seal_above
        self.pending = PendingWrites()
        self.newest: Checkpoint | None = None
        self.document = ""
        self.segments: list[Blob] = []
        self.numbers = iter(range(1, 1_000_000))
        self.failed: list[str] = []

    @property
    def journal(self) -> Journal:
        return self.recorder.journal

    def step(self, size: int) -> None:
        name = f"step {next(self.numbers)}"
        result = dumps("x" * size)
        self.journal.put(f"{name}#1", {"kind": "step", "input": "0" * 16}, result)
        self.journal.log_step(name, 0, 1, result, 0)

    def outer(self, inside: int) -> None:
        """A step with steps and tools in it, which it answers for once it is done."""
        name = f"outer {next(self.numbers)}"
        for number in range(inside):
            self.journal.put(f"{name}#1/in/ner#{number + 1}", {"kind": "step", "input": "0" * 16}, dumps("y" * 300))
            self.tool("completed", f"{name}#1/gather#1[{number}]/")
            self.save()
        self.journal.forget_inside(f"{name}#1")
        self.journal.put(f"{name}#1", {"kind": "step", "input": "0" * 16}, "2")

    def tool(self, status: str, inside: str = "") -> None:
        number = next(self.numbers)
        tool = ToolState("call", f"01890000-0000-7000-8000-{number:012}", "1" * 64)
        self.journal.tools[tool.invocation_id] = tool
        entry = {"kind": "tool", "invocation": tool.invocation_id, "input": "1" * 16}
        self.journal.put(f"{inside}tool {number}#1", dict(entry))
        self.save()
        tool = self.journal.tools[tool.invocation_id]  # Another one, if the run was resumed meanwhile.
        tool.status = status
        if status == "completed":
            tool.result = '{"done":true}'
        self.journal.put(f"{inside}tool {number}#1", dict(entry))

    def fail(self, kind: str) -> None:
        """A failure that the handler goes on from."""
        key = f"bad {next(self.numbers)}#1"
        entry: dict[str, Any] = {"kind": kind, "input": "0" * 16, "error": {"type": "ValueError", "message": "no"}}
        if kind == "call":
            entry["child"] = new_id_of(key)
        self.journal.put(key, entry)
        later = f"later {next(self.numbers)}#1"
        self.journal.begin(later)
        self.journal.put(later, {"kind": "step", "input": "0" * 16}, "1")
        self.failed.append(key)

    def again(self, _: int) -> None:
        if self.failed:
            assert self.journal.try_again(self.failed.pop(0))

    def remember(self, text: str) -> None:
        memory = self.journal.memory
        memory.add_fact(text)
        memory.data[text or "none"] = {"is": text}

    def use(self, tokens: int) -> None:
        self.journal.use(tokens, 2 * tokens, 1)

    def resume(self, _: int) -> None:
        """Another run goes on from what is stored."""
        self.write()
        if not self.document:
            return
        journal = journal_from(checked_record(self.stored()), {}, {}, {})
        journal.memory.restore(self.journal.memory.state())
        journal.spent = journal._noted_spent = self.journal.spent
        journal.failures = self.journal.failures
        self.recorder = asyncio.run(a_recorder(journal, self.stored().checkpoint_id))

    def save(self) -> None:
        self.newest = self.recorder.snapshot("somewhere", "in_progress", self.seal_above)
        self.pending.take(self.newest)
        if next(self.written):
            self.write()

    def write(self) -> None:
        """What a store does with what was posted."""
        checkpoint, self.pending.checkpoint = self.pending.checkpoint, None
        if checkpoint is not None:
            self.document = checkpoint.document
            self.segments += [blob for blob in checkpoint.blobs if blob.seq is not None]

    def stored(self) -> StoredCheckpoint:
        return StoredCheckpoint(JOB, AGENT, "release", loads(self.document)["checkpoint_id"], self.document, tuple(self.segments))

    def whole(self) -> dict[str, Any]:
        """Without what differs between two recorders. The order of tools says nothing."""
        self.write()
        blob = checked_blob(self.stored())
        blob["active_tools"] = {tool["invocation_id"]: tool for tool in blob["active_tools"]}
        return {name: value for name, value in blob.items() if name not in ("checkpoint_id", "crc32")}


def new_id_of(key: str) -> str:
    return f"01890000-0000-7000-8000-{int(hashlib.sha256(key.encode()).hexdigest(), 16) % 10**12:012}"


CHANGES = st.one_of(
    st.tuples(st.just("step"), st.integers(0, 900)),
    st.tuples(st.just("outer"), st.integers(0, 3)),
    st.tuples(st.just("tool"), st.sampled_from(["running", "completed", "failed"])),
    st.tuples(st.just("fail"), st.sampled_from(["step", "call", "llm"])),
    st.tuples(st.just("again"), st.just(0)),
    st.tuples(st.just("remember"), st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=30)),
    st.tuples(st.just("use"), st.integers(0, 9)),
    st.tuples(st.just("resume"), st.just(0)),
)
WRITTEN = st.lists(st.booleans(), min_size=1, max_size=12).filter(any)


@given(st.lists(CHANGES, max_size=40), WRITTEN, st.integers(1, 6000), st.integers(0, 3000), st.integers(300, 9000))
@settings(max_examples=250, deadline=None)
def test_document_and_segments_are_what_one_long_document_would_be(
    changes: list[tuple[str, Any]], written: list[bool], seal_above: int, smallest: int, largest: int
) -> None:
    """Checkpoints that are posted while one is written are merged into one, as the outbox does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SMALLEST_BYTES", smallest)
        patch.setattr(segments, "LARGEST_BYTES", largest)
        sealing, long = Scribe(cycle(written), seal_above), Scribe(repeat(True), NEVER)
        for change, value in changes:
            for scribe in (sealing, long):
                getattr(scribe, change)(value)
                scribe.save()
            assert sealing.whole() == long.whole()


def test_what_is_not_settled_stays_in_the_document() -> None:
    scribe = Scribe(repeat(True), 1)
    scribe.journal.tools[new_id_of("a")] = ToolState("pay", new_id_of("a"), "1" * 64)
    scribe.journal.put("pay#1", {"kind": "tool", "invocation": new_id_of("a"), "input": "1" * 16})
    scribe.journal.put("child#1", {"kind": "call", "input": "1" * 16, "child": new_id_of("b")})
    for _ in range(20):
        scribe.step(300)
    scribe.save()

    document = loads(scribe.document)
    assert sorted(document["memory_context"]["working_data"]["$cortex"]["steps"]) == ["child#1", "pay#1"]
    assert [tool["status"] for tool in document["active_tools"]] == ["running"]
    assert document["execution_log"] == []
    assert document["step_index"] == 20
    assert len(scribe.segments) == 1


def test_the_document_stays_as_small_after_thousands_of_steps() -> None:
    scribe = Scribe(repeat(True), segments.SEAL_ABOVE_BYTES)
    sizes = []
    for _ in range(2000):
        scribe.step(3)
        scribe.save()
        sizes.append(len(scribe.document))

    assert max(sizes[:100]) <= segments.SEAL_ABOVE_BYTES
    assert max(sizes) <= max(sizes[:100]) + 100, "only numbers have become longer"
    assert scribe.whole()["step_index"] == 2000
    assert len(scribe.whole()["execution_log"]) == 2001


def test_a_long_memory_does_not_make_a_segment_of_every_step() -> None:
    scribe = Scribe(repeat(True), segments.SEAL_ABOVE_BYTES)
    scribe.remember("x" * 20_000)
    for _ in range(100):
        scribe.step(3)
        scribe.save()

    assert len(scribe.segments) < 15


def test_a_record_that_begins_anew_uses_no_number_twice() -> None:
    scribe = Scribe(repeat(True), 1)
    for _ in range(20):
        scribe.step(300)
        scribe.save()
    before = len(scribe.segments)
    assert before > 1
    anew = Journal(seed="another", sealed=checked_record(scribe.stored()).sealed.anew())
    scribe.recorder = asyncio.run(a_recorder(anew, scribe.stored().checkpoint_id))
    scribe.save()
    assert scribe.whole()["step_index"] == 0
    for _ in range(20):
        scribe.step(300)
        scribe.save()

    assert [segment.seq for segment in scribe.segments] == list(range(1, len(scribe.segments) + 1))
    assert len(scribe.whole()["execution_log"]) == 21


def test_renamed_steps_are_sealed_anew_under_their_new_names() -> None:
    scribe = Scribe(repeat(True), 1)
    for _ in range(20):
        scribe.step(300)
        scribe.save()
    renamed = {f"step {number}": f"new {number}" for number in range(1, 21)}
    journal = journal_from(checked_record(scribe.stored()), {}, {}, renamed)
    scribe.recorder = asyncio.run(a_recorder(journal, scribe.stored().checkpoint_id))
    scribe.save()

    steps = scribe.whole()["memory_context"]["working_data"]["$cortex"]["steps"]
    assert sorted(steps) == sorted(f"{name}#1" for name in renamed.values())


def test_what_threads_count_and_remember_while_a_checkpoint_is_made_is_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain function that runs as a step does so in a thread, at any moment of this."""
    scribe = Scribe(repeat(True), 1500)
    cents = 0

    def counted_meanwhile(blob: Any) -> str:
        text = with_crc(blob)
        scribe.use(7)
        scribe.remember(f"fact {next(scribe.numbers)}")
        return text

    monkeypatch.setattr(recorder, "with_crc", counted_meanwhile)
    for number in range(60):
        scribe.step(number)
        scribe.save()
        assert scribe.newest is not None
        cents += scribe.newest.cost_cents
        assert scribe.whole()["memory_context"]["working_data"]["$cortex"]["spent_cents"] == cents


# -- damage --------------------------------------------------------------------------------------


def a_long_one() -> StoredCheckpoint:
    scribe = Scribe(repeat(True), 1)
    for _ in range(30):
        scribe.step(150)
        scribe.tool("completed")
        scribe.save()
    assert len(scribe.segments) >= 4
    return scribe.stored()


LONG = a_long_one()
SEGMENTS = LONG.segments or ()


@given(st.data(), st.integers(-1, len(SEGMENTS) - 1))
@settings(max_examples=500, deadline=None)
def test_no_changed_byte_of_any_part_goes_unnoticed(data: st.DataObject, number: int) -> None:
    text = LONG.document if number < 0 else SEGMENTS[number].content
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(min_codepoint=32, max_codepoint=126).filter(lambda letter: letter != text[place]))
    damaged = text[:place] + other + text[place + 1 :]
    if number < 0:
        if same_json(text, damaged):
            return
        stored = replace(LONG, document=damaged)
    else:
        stored = replace(LONG, segments=with_one(number, replace(SEGMENTS[number], content=damaged)))

    with pytest.raises(CheckpointCorrupted) as refused:
        checked_blob(stored)
    if number >= 0:
        assert refused.value.kind == "segment_changed"


def with_one(number: int, segment: Blob) -> tuple[Blob, ...]:
    return tuple(segment if place == number else one for place, one in enumerate(SEGMENTS))


def forged(segment: Blob, **changes: Any) -> Blob:
    """With a digest that fits."""
    content = dumps({**loads(segment.content), **changes})
    return replace(segment, content=content, sha256=hashlib.sha256(content.encode()).hexdigest())


LAST = len(SEGMENTS) - 1
DAMAGES: dict[str, tuple[str, tuple[Blob, ...]]] = {
    "the first is gone": ("segment_missing", SEGMENTS[1:]),
    "one in the middle is gone": ("segment_missing", (*SEGMENTS[:1], *SEGMENTS[2:])),
    "the last is gone": ("segment_missing", SEGMENTS[:-1]),
    "all are gone": ("segment_missing", ()),
    "there is one more": ("segment_unknown", (*SEGMENTS, replace(SEGMENTS[-1], seq=LAST + 2))),
    "two have changed places": (
        "segment_out_of_order",
        (replace(SEGMENTS[1], seq=1), replace(SEGMENTS[0], seq=2), *SEGMENTS[2:]),
    ),
    "one in the middle is forged": ("segment_out_of_order", with_one(1, forged(SEGMENTS[1], execution_log=[]))),
    "the last is forged": ("segment_replaced", with_one(LAST, forged(SEGMENTS[LAST], execution_log=[]))),
    "one is no segment": ("segment_shape", with_one(0, forged(SEGMENTS[0], steps=[]))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_segments_that_do_not_belong_together_are_refused_by_name(damage: str) -> None:
    kind, found = DAMAGES[damage]

    with pytest.raises(CheckpointCorrupted) as refused:
        checked_blob(replace(LONG, segments=found))
    assert refused.value.kind == kind


def test_a_document_is_not_taken_for_the_whole_record() -> None:
    with pytest.raises(CheckpointCorrupted):
        checked_blob(StoredCheckpoint(JOB, AGENT, "release", LONG.checkpoint_id, LONG.document))
