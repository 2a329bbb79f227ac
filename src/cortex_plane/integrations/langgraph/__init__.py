"""LangGraph: compiled graphs as agents, and a saver that keeps their state in the store of the plane.

executor.py    runs one graph to its end or to its interrupts
interrupts.py  what people are shown of an interrupt, and what its node gets back
saver.py       LangGraph's checkpoint saver, over our port
packing.py     how state is written, and what is refused
messages.py    tokens and costs that messages tell of
"""

from cortex_plane.integrations.langgraph.executor import LangGraphExecutor
from cortex_plane.integrations.langgraph.saver import PlaneSaver

__all__ = ["LangGraphExecutor", "PlaneSaver"]
