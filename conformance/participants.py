"""Who is probed, in which environment, and what its own documentation does not promise."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUR_PYTHON = Path(sys.executable)
PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
OURS = "Cortex Plane"

PEERS_DO_NOT_PROMISE = {
    "effects in doubt are not repeated": "its documentation says that a step may run again, and asks for idempotent steps",
    "an altered record is noticed": "it keeps no checksums",
    "effects under freeze happen once": "it has no lease: recovery presumes that the other process has ended",
}


@dataclass(frozen=True, slots=True)
class Participant:
    title: str
    system: str
    python: Path
    not_promised: Mapping[str, str] = field(default_factory=dict)


PARTICIPANTS = (
    Participant(OURS, "cortex", OUR_PYTHON),
    Participant("DBOS", "dbos", PEERS_PYTHON, PEERS_DO_NOT_PROMISE),
    Participant("LangGraph, sync", "langgraph", PEERS_PYTHON, PEERS_DO_NOT_PROMISE),
    Participant("LangGraph as it comes, async", "langgraph_async", PEERS_PYTHON, PEERS_DO_NOT_PROMISE),
)
