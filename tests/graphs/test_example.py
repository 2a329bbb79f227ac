"""examples/langgraph_poet.py does what its first lines promise, and what docs/graphs.md says of extras holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "langgraph_poet.py"


def test_the_poet_writes_offline(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "To the sea: O sea, so wide, so deep"


def test_langgraph_is_loaded_only_when_a_graph_is_given() -> None:
    code = "import sys, cortex_plane; cortex_plane.Plane; print([name for name in sys.modules if name.startswith('lang')])"

    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ}, capture_output=True, text=True, timeout=50, check=True)

    assert ran.stdout.strip() == "[]"


def test_without_the_extra_the_error_names_it() -> None:
    """As when LangGraph itself is there, and a part that the extra would bring is not."""
    code = """
import sys
sys.modules["ormsgpack"] = None
from cortex_plane import InvalidInput
from cortex_plane.wiring import graph_executor
compiled = type("Pregel", (), {"__module__": "langgraph.pregel.main"})()
try:
    graph_executor(compiled)
except InvalidInput as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ}, capture_output=True, text=True, timeout=50, check=True)

    assert "pip install 'cortex-plane[langgraph]'" in ran.stdout
