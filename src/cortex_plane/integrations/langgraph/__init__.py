"""LangGraph: compiled graphs as agents, and a saver that keeps their state in the store of the plane.

executor.py    runs a graph to its end or to its interrupts; converts interrupts to questions and decisions to answers
saver.py       LangGraph's checkpoint saver over the plane's store; serializer; token usage of messages
"""

from cortex_plane.integrations.langgraph.executor import LangGraphExecutor
from cortex_plane.integrations.langgraph.saver import PlaneSaver

__all__ = ["LangGraphExecutor", "PlaneSaver"]
