"""Runs in the environment of one system: kills its program at every boundary, starts it again, and tells what it saw.

                   ┌─▶ inspect ─▶ start again ─▶ inspect
start ─▶ killed ───┤
                   └─▶ a copy of the store ─▶ start again ─▶ inspect
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from conformance.agent import Doings, lines
from conformance.boundaries import NEVER, Boundaries
from conformance.children import Failed, Hung, Killed, in_child
from conformance.order import Life, Order, Trial
from conformance.places import Databases, Files, Places
from conformance.systems import System

SYSTEMS = {
    "cortex": ("cortex", "Cortex"),
    "dbos": ("dbos", "Dbos"),
    "langgraph": ("langgraph", "LangGraph"),
    "langgraph_async": ("langgraph", "LangGraphAsItComes"),
}
MOST_RESTARTS = 3
ALTERED = ("look is done", "look is gone")

Program = Callable[[str, Doings], list[str]]


class Host:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._folder = Path(order.folder)
        self._places: Places = Databases(order.server) if order.server else Files(self._folder)
        self._system = system_named(order.system)

    def tell_everything(self) -> None:
        self._empty = self._places.new(f"{self._order.system}_empty")
        in_child(lambda: self._system.prepare(self._empty), self._folder / "prepare.json")
        self._enumerate("steps")
        self._enumerate("questions")
        tell(self._altered())

    def _enumerate(self, kind: str) -> None:
        """An undisturbed run says how many boundaries there are; the kills go on until a run ends without one."""
        undisturbed = self._trial(kind, NEVER)
        tell(undisturbed)
        numbers = list(range(1, undisturbed.boundaries + 1))
        if self._order.at_most and len(numbers) > self._order.at_most:
            numbers = [numbers[len(numbers) * part // self._order.at_most] for part in range(self._order.at_most)]
        trials = in_parallel([partial(self._trial, kind, number) for number in numbers], self._order.in_parallel)
        for trial in trials:
            tell(trial)
        number = undisturbed.boundaries + 1
        while not self._order.at_most and (trial := self._trial(kind, number)).was_killed:
            tell(trial)
            number += 1

    def _trial(self, kind: str, number: int) -> Trial:
        trial = Trial(kind, number)
        folder = self._folder / f"{kind}_{number}"
        folder.mkdir()
        store = self._places.copy(self._empty, f"{self._order.system}_{kind}_{number}")
        program = self._system.run if kind == "steps" else self._system.ask
        trial.first = self._live(program, store, folder, "first", number, trial)
        if kind == "steps" and (trial.was_killed or number == NEVER):
            self._look_back(trial, store, folder)
        elif trial.was_killed:
            trial.again = self._until_done(program, store, folder, "again")
        return trial

    def _look_back(self, trial: Trial, store: str, folder: Path) -> None:
        trial.recorded = self._inspect(store, folder / "recorded.json")
        if trial.was_killed:
            copied = self._places.copy(store, f"{self._order.system}_fork_{trial.number}")
            copied_folder = folder.with_name(f"{folder.name}_fork")
            shutil.copytree(folder, copied_folder)
            trial.again = self._until_done(self._system.run, store, folder, "again")
            trial.recorded_at_end = self._inspect(store, folder / "recorded_at_end.json")
            trial.fork = self._until_done(self._system.run, copied, copied_folder, "fork")
            trial.fork_recorded_at_end = self._inspect(copied, copied_folder / "recorded_at_end.json")
        trial.effects = lines(folder / "effects")

    def _altered(self) -> Trial:
        """Before its eighth step the program is killed, and a result that it has recorded is changed behind its back."""
        trial = Trial("altered", 0)
        folder = self._folder / "altered"
        folder.mkdir()
        store = self._places.copy(self._empty, f"{self._order.system}_altered")
        trial.first = self._live(self._system.run, store, folder, "first", NEVER, trial, "before effect book")
        if not in_child(lambda: self._system.alter(store, *ALTERED), folder / "alter.json"):
            trial.not_offered = "nothing was found that could be altered"
            return trial
        trial.again = self._live(self._system.run, store, folder, "again", NEVER, trial)
        return trial

    def _until_done(self, program: Program, store: str, folder: Path, process: str) -> Life:
        """Started again until it completes; what all of these processes executed counts as one life."""
        for _ in range(MOST_RESTARTS):
            life = self._live(program, store, folder, process, NEVER, None)
            if life.ended == "done":
                break
        return life

    def _live(
        self, program: Program, store: str, folder: Path, process: str, kill_at: int, trial: Trial | None, kill_when: str = ""
    ) -> Life:
        def work() -> dict[str, Any]:
            boundaries = Boundaries(kill_at, folder / "killed", kill_when)
            self._system.watch(boundaries)
            answer = program(store, Doings(folder, process, boundaries))
            return {"answer": answer, "boundaries": boundaries.passed}

        life = Life("done")
        try:
            told = in_child(work, folder / f"{process}.json")
            life.answer = told["answer"]
            if trial is not None:
                trial.boundaries = told["boundaries"]
        except Killed:
            life.ended = "killed"
            if trial is not None:
                trial.at = (folder / "killed").read_text()
        except Failed as error:
            life.ended, life.trouble = "failed", str(error)
        except Hung:
            life.ended, life.trouble = "hung", "it did not end"
        life.executed = lines(folder / f"{process}.trace")
        return life

    def _inspect(self, store: str, answer: Path) -> list[list[str]] | None:
        try:
            recorded: list[list[str]] = in_child(lambda: self._system.recorded(store), answer)
            return recorded
        except (Failed, Hung, Killed):
            return None


def in_parallel(works: Sequence[Callable[[], Trial]], most: int) -> Iterator[Trial]:
    """Each in a process of its own, because most of their time is spent waiting; told in order."""
    running: list[tuple[int, int]] = []
    for work in works:
        if len(running) == most:
            yield _read(*running.pop(0))
        source, target = os.pipe()
        child = os.fork()
        if child == 0:
            _write_and_leave(work, target)
        os.close(target)
        running.append((child, source))
    for child, source in running:
        yield _read(child, source)


def _write_and_leave(work: Callable[[], Trial], target: int) -> None:
    try:
        with os.fdopen(target, "w") as pipe:
            pipe.write(work().text())
    finally:
        os._exit(0)


def _read(child: int, source: int) -> Trial:
    with os.fdopen(source) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return Trial.read(text)


def system_named(name: str) -> System:
    module, kind = SYSTEMS[name]
    system: System = getattr(importlib.import_module(f"conformance.systems.{module}"), kind)()
    return system


def tell(trial: Trial) -> None:
    print(trial.text(), flush=True)


if __name__ == "__main__":
    Host(Order.read(sys.argv[1])).tell_everything()
