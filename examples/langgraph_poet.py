"""A LangGraph graph as an agent, with a fake model that needs no network: python examples/langgraph_poet.py

Needs the extra: pip install 'cortex-plane[langgraph]'
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from cortex_plane import Plane


class Poem(TypedDict):
    topic: str
    messages: Annotated[list[AnyMessage], add_messages]
    title: str


async def write(state: Poem) -> dict[str, Any]:
    """Stands for a call to a real model; the tokens that its message names are counted for the job."""
    usage: Any = {"input_tokens": 12, "output_tokens": 9, "total_tokens": 21}
    model = GenericFakeChatModel(messages=iter([AIMessage(f"O {state['topic']}, so wide, so deep", usage_metadata=usage)]))
    return {"messages": [await model.ainvoke(f"A line about {state['topic']}")]}


def name(state: Poem) -> dict[str, Any]:
    return {"title": f"To the {state['topic']}"}


def poet() -> Any:
    builder = StateGraph(Poem)
    builder.add_node("write", write)
    builder.add_node("name", name)
    builder.add_edge(START, "write")
    builder.add_edge("write", "name")
    return builder.compile()


plane = Plane()  # Keeps everything in cortex.db, or where CORTEX_DATABASE_URL says.
agent = plane.graph("langgraph:poet", poet())


async def main() -> None:
    async with plane:
        job = await agent.submit(topic="sea")
        await plane.run_worker(until_idle=True)
        poem = await job.result()
        print(f"{poem['title']}: {poem['messages'][-1]['content']}")


if __name__ == "__main__":
    asyncio.run(main())
