"""The fingerprint of an agent's code: the same in every process that has the code, another for other code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cortex_plane import Plane
from cortex_plane.agents.code import fingerprint

MODULE = """
from cortex_plane import Context, Plane

plane = Plane("sqlite://")

@plane.agent("release", {options})
async def release(ctx: Context, version: str = "1") -> bool:
    {comment}
    def choose(found):
        return found in {{"a", "b", "c"}}

    return choose(await ctx.step("build", {work}, version))
"""
SHOW = "import agents; from cortex_plane.agents.code import fingerprint; print(fingerprint(agents.plane.agents['release']))"


def printed(folder: Path, seed: str = "0", options: str = "", comment: str = "pass", work: str = "str") -> str:
    """The fingerprint as a process of its own sees it."""
    (folder / "agents.py").write_text(MODULE.format(options=options, comment=comment, work=work))
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([sys.executable, "-c", SHOW], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_every_process_with_the_same_code_has_the_same_fingerprint(tmp_path: Path) -> None:
    assert printed(tmp_path, seed="1") == printed(tmp_path, seed="2") != ""


@pytest.mark.parametrize("change", [{"work": "repr"}, {"options": 'version="2"'}, {"options": 'renamed_steps={"a": "b"}'}])
def test_other_code_has_another(tmp_path: Path, change: dict[str, str]) -> None:
    assert printed(tmp_path) != printed(tmp_path, **change)


def test_what_a_closure_holds_counts_unless_it_may_change() -> None:
    def made(name: str, seen: list[str]) -> str:
        plane = Plane("sqlite://")

        @plane.agent("agent")
        async def agent(ctx: object) -> None:
            seen.append(name)

        return fingerprint(plane.agents["agent"])

    assert made("a", []) == made("a", ["something"])
    assert made("a", []) != made("b", [])


def test_functions_that_refer_to_each_other_are_read_once() -> None:
    plane = Plane("sqlite://")

    def even(number: int) -> bool:
        return number == 0 or odd(number - 1)

    def odd(number: int) -> bool:
        return number != 0 and even(number - 1)

    @plane.agent("agent")
    async def agent(ctx: object, number: int) -> bool:
        return even(number)

    assert len(fingerprint(plane.agents["agent"])) == 16
