"""A graph as an agent: its input and output, retries, interrupts, what people see of it, and what its models have used."""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

from cortex_plane import Context
from cortex_plane.clock import after
from cortex_plane.durable.suspension import SleepUntil
from cortex_plane.graphs.model import GraphAnswer, Question
from cortex_plane.testing import TestPlane

pytestmark = pytest.mark.anyio


class State(TypedDict):
    topic: str
    lines: Annotated[list[str], operator.add]
    messages: Annotated[list[AnyMessage], add_messages]


def line_of(*nodes: tuple[str, Any]) -> Any:
    """A compiled graph of these nodes, one after the other."""
    builder = StateGraph(State)
    names = [START, *(name for name, _ in nodes)]
    for name, work in nodes:
        builder.add_node(name, work)
    for before, behind in pairwise(names):
        builder.add_edge(before, behind)
    return builder.compile()


def says(text: str, calls: list[str] | None = None) -> Any:
    def node(state: State) -> dict[str, Any]:
        if calls is not None:
            calls.append(text)
        return {"lines": [text]}

    return node


class People:
    """Answer when they have been told what; until then the job sleeps, as it would wait for an approval."""

    def __init__(self) -> None:
        self.answers: dict[str, GraphAnswer] = {}
        self.asked: list[Question] = []

    async def ask(self, ctx: Context, question: Question) -> GraphAnswer:
        recorder = ctx._durable
        key = f"answer {question.id}"
        if f"{key}#1" not in recorder.journal.entries:
            self.asked.append(question)
            if question.summary not in self.answers:
                recorder.suspend(SleepUntil(after(recorder.services.clock.now(), 60)))
        given = await ctx.step(key, self._given, question.summary)
        return GraphAnswer(**given)

    async def _given(self, summary: str) -> dict[str, Any]:
        answer = self.answers[summary]
        return {name: getattr(answer, name) for name in ("approved", "decided_by", "reason", "details")}


# -- running -----------------------------------------------------------------------------------------


async def test_a_jobs_arguments_are_the_graphs_input_and_its_output_is_the_jobs(plane: TestPlane) -> None:
    poet = plane.graph("langgraph:poet", line_of(("write", lambda state: {"lines": [f"about {state['topic']}"]})))
    job = await poet.submit(topic="the sea")

    await plane.work()

    assert await job.result(timeout=5) == {"topic": "the sea", "lines": ["about the sea"], "messages": []}


async def test_a_retry_goes_on_at_the_node_that_failed(plane: TestPlane) -> None:
    calls: list[str] = []

    def weak(state: State) -> dict[str, Any]:
        calls.append("weak")
        if calls.count("weak") == 1:
            raise ValueError("not yet")
        return {"lines": ["weak"]}

    agent = plane.graph("graph", line_of(("first", says("first", calls)), ("weak", weak), ("last", says("last", calls))))
    job = await agent.submit(topic="x")

    await plane.work()
    await plane.clock.advance(minutes=10)
    await plane.work()

    assert (await job.result(timeout=5))["lines"] == ["first", "weak", "last"]
    assert calls == ["first", "weak", "weak", "last"]


async def test_a_resumed_graph_goes_on_at_the_node_that_failed_and_a_retry_starts_anew(plane: TestPlane) -> None:
    calls: list[str] = []

    def weak(state: State) -> dict[str, Any]:
        calls.append("weak")
        if calls.count("weak") == 1:
            raise ValueError("not yet")
        return {"lines": ["weak"]}

    agent = plane.graph("graph", line_of(("first", says("first", calls)), ("weak", weak)), max_retries=0)
    job = await agent.submit(topic="x")
    await plane.work()

    resumed = await job.resume()
    await plane.work()
    await resumed.retry()
    await plane.work()

    assert (await resumed.result(timeout=5))["lines"] == ["first", "weak"]
    assert calls == ["first", "weak", "weak", "first", "weak"]


async def test_a_graph_that_had_ended_when_its_worker_died_is_not_run_again(plane: TestPlane) -> None:
    calls: list[str] = []
    agent = plane.graph("graph", line_of(("only", says("only", calls))))
    job = await agent.submit(topic="x")
    store: Any = plane.store
    finish = store.queue.finish
    lost: list[bool] = []

    async def lose(*values: Any) -> Any:
        if not lost:
            lost.append(True)
            for worker in plane._workers:
                worker.die()
            return set()
        return await finish(*values)

    store.queue.finish = lose
    await plane.work()
    await plane.clock.advance(minutes=1)
    await plane.work()

    assert lost
    assert (await job.result(timeout=5))["lines"] == ["only"]
    assert calls == ["only"]


async def test_a_graph_whose_job_was_cancelled_keeps_nothing_more(plane: TestPlane) -> None:
    calls: list[str] = []
    store = plane.store

    async def cancelled(state: State) -> dict[str, Any]:
        await store.jobs.cancel(job.id, None, None)
        return {"lines": ["too late"]}

    job = await plane.graph("graph", line_of(("first", cancelled), ("second", says("second", calls)))).submit(topic="x")
    await plane.work()

    found = await store.graphs.get(job.id, "")
    assert found is not None
    assert found.writes == []
    assert calls == []
    assert (await plane.jobs.get(job.id)).status == "CANCELLED"


async def test_a_replay_of_a_graph_runs_none_of_its_nodes(plane: TestPlane) -> None:
    people = People()
    calls: list[str] = []
    people.answers["Sure?"] = GraphAnswer(True)

    def fails(state: State) -> dict[str, Any]:
        calls.append("fails")
        raise ValueError("not yet")

    nodes = line_of(("ask", lambda state: {"lines": [str(interrupt("Sure?")["approved"])]}), ("fails", fails))
    job = await plane.graph("graph", nodes, ask=people.ask).submit(topic="x")
    await plane.work()

    await plane.checkpoints.replay(job.id)

    assert (await plane.jobs.get(job.id)).status == "RETRY"
    assert calls == ["fails"]


async def test_nodes_that_finish_are_told_as_events_also_inside_of_other_graphs(plane: TestPlane) -> None:
    agent = plane.graph("graph", line_of(("outer", line_of(("inner", says("inner")))), ("last", says("last"))))
    job = await agent.submit(topic="x")

    await plane.work()

    events = await plane.store.events.list(job.id, 0, 50)
    assert [event.data["data"]["node"] for event in events if event.kind == "log"] == ["outer / inner", "outer", "last"]
    assert [event.data["text"] for event in events if event.kind == "progress"][-1] == "last finished"


# -- asking ------------------------------------------------------------------------------------------


async def test_an_interrupt_waits_for_its_answer_and_the_node_gets_it(plane: TestPlane) -> None:
    people = People()
    calls: list[str] = []

    def publish(state: State) -> dict[str, Any]:
        decided = interrupt("Publish it?")
        return {"lines": [f"{decided['approved']} by {decided['decided_by']}: {decided['reason']}"]}

    nodes = line_of(("write", says("write", calls)), ("publish", publish))
    job = await plane.graph("graph", nodes, ask=people.ask).submit(topic="x")
    await plane.work()
    waiting = (await plane.jobs.get(job.id)).status

    people.answers["Publish it?"] = GraphAnswer(False, "ada@example.com", "too short")
    await plane.clock.advance(minutes=2)
    await plane.work()

    assert waiting == "RETRY"
    assert (await job.result(timeout=5))["lines"] == ["write", "False by ada@example.com: too short"]
    assert calls == ["write"]


async def test_interrupts_of_one_step_of_inner_graphs_and_of_one_node_are_all_asked_once(plane: TestPlane) -> None:
    people, stopped_at = People(), []

    def asks(*questions: str) -> Any:
        def node(state: State) -> dict[str, Any]:
            return {"lines": [f"{question} {interrupt(question)['decided_by']}" for question in questions]}

        return node

    class Inner(TypedDict):
        lines: Annotated[list[str], operator.add]

    inner = StateGraph(Inner)
    inner.add_node("deep", asks("deep"))
    inner.add_edge(START, "deep")
    builder = StateGraph(State)
    builder.add_node("left", asks("left", "left again", "left again and again"))
    builder.add_node("right", inner.compile())
    builder.add_edge(START, "left")
    builder.add_edge(START, "right")
    job = await plane.graph("graph", builder.compile(), ask=people.ask).submit(topic="x")

    for _ in range(4):  # Nodes of one step ask in any order, those of one node in its own.
        await plane.work()
        question = people.asked[-1].summary
        stopped_at.append(question)
        people.answers[question] = GraphAnswer(True, f"who was asked {question}")
        await plane.clock.advance(minutes=2)
    await plane.work()

    assert [question for question in stopped_at if question != "deep"] == ["left", "left again", "left again and again"]
    assert stopped_at.count("deep") == 1
    assert sorted((await job.result(timeout=5))["lines"]) == sorted(
        f"{question} who was asked {question}" for question in ("left", "left again", "left again and again", "deep")
    )
    assert len({question.id for question in people.asked}) == 4
    events = await plane.store.events.list(job.id, 0, 50)
    told = [event.data["data"]["node"] for event in events if event.kind == "log"]
    assert sorted(told) == ["left", "right", "right / deep"]


async def test_a_question_that_comes_again_in_a_loop_is_another_question(plane: TestPlane) -> None:
    """What was approved once is not approved for ever."""
    people = People()
    people.answers["Again?"] = GraphAnswer(True)

    def once_more(state: State) -> dict[str, Any]:
        return {"lines": [str(interrupt("Again?")["approved"])]}

    builder = StateGraph(State)
    builder.add_node("loop", once_more)
    builder.add_edge(START, "loop")
    builder.add_conditional_edges("loop", lambda state: "loop" if len(state["lines"]) < 3 else "__end__")
    job = await plane.graph("graph", builder.compile(), ask=people.ask).submit(topic="x")

    await plane.work()

    assert (await job.result(timeout=5))["lines"] == ["True"] * 3
    assert len({question.id for question in people.asked}) == 3


async def test_an_answer_that_was_given_survives_the_failure_of_the_node_that_asked(plane: TestPlane) -> None:
    people, tries = People(), []
    people.answers["May I?"] = GraphAnswer(True)

    def weak(state: State) -> dict[str, Any]:
        decided = interrupt("May I?")["approved"]
        tries.append(decided)
        if len(tries) == 1:
            raise ValueError("not yet")
        return {"lines": ["done"]}

    job = await plane.graph("graph", line_of(("weak", weak)), ask=people.ask).submit(topic="x")
    await plane.work()
    await plane.clock.advance(minutes=10)
    await plane.work()

    assert (await job.result(timeout=5))["lines"] == ["done"]
    assert tries == [True, True]
    assert len(people.asked) == 1


# -- counting ----------------------------------------------------------------------------------------


async def test_tokens_and_cents_of_models_are_counted_once_each_however_often_the_job_is_called(plane: TestPlane) -> None:
    people = People()

    def spoken(text: str) -> AIMessage:
        usage: Any = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9, "total_cost": 0.006}
        return AIMessage(text, usage_metadata=usage)

    async def model(state: State) -> dict[str, Any]:
        return {"messages": [await GenericFakeChatModel(messages=iter([spoken("hello")])).ainvoke("hi")]}

    async def unseen(state: State) -> dict[str, Any]:
        await GenericFakeChatModel(messages=iter([spoken("a thought")])).ainvoke("hi")
        return {"lines": ["thought"]}

    async def own_client(state: State) -> dict[str, Any]:
        return {"messages": [*state["messages"], spoken("from elsewhere")]}

    async def asks(state: State) -> dict[str, Any]:
        return {"lines": [str(interrupt("Go on?")["approved"])], "messages": state["messages"]}

    nodes = line_of(("model", model), ("unseen", unseen), ("own", own_client), ("asks", asks))
    job = await plane.graph("graph", nodes, ask=people.ask).submit(topic="x")
    for _ in range(3):
        await plane.work()
        await plane.clock.advance(minutes=2)
    people.answers["Go on?"] = GraphAnswer(True)
    await plane.work()
    await job.result(timeout=5)

    usage = (await plane.checkpoints.get(job.id))["memory_context"]["token_usage"]
    assert usage == {"prompt_tokens": 21, "completion_tokens": 6}
    assert (await plane.jobs.get(job.id)).cost_cents == 1
