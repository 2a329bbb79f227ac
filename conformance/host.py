"""Runs in the environment of one system: disturbs its program in every way, starts it again, and reports what it saw.

                   ┌─▶ inspect ─▶ start again ─▶ inspect
start ─▶ killed ───┤
                   └─▶ a copy of the store ─▶ start again ─▶ inspect
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from conformance.agent import Doings, lines
from conformance.boundaries import NEVER, Boundaries
from conformance.children import Failed, Frozen, Hung, Killed, in_child, outcome_of, start
from conformance.order import LOCKED, Life, Order, Trial
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
        self._enumerate("payment")
        tell(self._altered())
        self._freeze_everywhere()
        tell(self._failed())
        tell(self._parallel())

    def _enumerate(self, kind: str) -> None:
        """An undisturbed run says how many boundaries there are; the kills go on until a run ends without one."""
        undisturbed = self._trial(kind, NEVER)
        tell(undisturbed)
        if kind == "steps":
            self._boundaries = undisturbed.boundaries
        numbers = self._chosen(undisturbed.boundaries)
        trials = in_parallel([partial(self._trial, kind, number) for number in numbers], self._order.in_parallel)
        for trial in trials:
            tell(trial)
        number = undisturbed.boundaries + 1
        while not self._order.at_most and (trial := self._trial(kind, number)).was_killed:
            tell(trial)
            number += 1

    def _chosen(self, boundaries: int) -> list[int]:
        numbers, most = list(range(1, boundaries + 1)), self._order.at_most
        if most and len(numbers) > most:
            numbers = [numbers[len(numbers) * part // most] for part in range(most)]
        return numbers

    def _trial(self, kind: str, number: int) -> Trial:
        trial = Trial(kind, number)
        folder = self._folder / f"{kind}_{number}"
        folder.mkdir()
        store = self._places.copy(self._empty, f"{self._order.system}_{kind}_{number}")
        program = {"steps": self._system.run, "questions": self._system.ask, "payment": self._system.pay}[kind]
        trial.first = self._live(program, store, folder, "first", number, trial)
        if kind == "steps" and (trial.was_killed or number == NEVER):
            self._look_back(trial, store, folder)
        elif trial.was_killed:
            trial.again = self._until_done(program, store, folder, "again")
        trial.keys = lines(folder / "keys")
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

    def _freeze_everywhere(self) -> None:
        numbers = self._chosen(self._boundaries)
        for trial in in_parallel([partial(self._frozen, number) for number in numbers], self._order.in_parallel):
            tell(trial)

    def _frozen(self, number: int) -> Trial:
        """The process is stopped at a boundary. Another one finishes the work. Then the first one is continued."""
        trial = Trial("frozen", number)
        folder = self._folder / f"frozen_{number}"
        folder.mkdir()
        store = self._places.copy(self._empty, f"{self._order.system}_frozen_{number}")
        answer = folder / "first.json"
        child = start(self._work(self._system.run, store, folder, "first", number, freeze=True), answer)
        try:
            outcome_of(child, answer)
        except Frozen:
            trial.first.ended, trial.at = "frozen", (folder / "killed").read_text()
            if self._places.lock_holder(store) == child:  # Another thread of it was frozen in a transaction.
                trial.at = LOCKED
            else:
                trial.again = self._until_done(self._system.run, store, folder, "again")
            os.kill(child, signal.SIGCONT)
            with suppress(Failed, Hung):
                outcome_of(child, answer)
        trial.first.executed = lines(folder / "first.trace")
        trial.effects = lines(folder / "effects")
        return trial

    def _failed(self) -> Trial:
        trial = Trial("failed", 0)
        folder = self._folder / "failed"
        folder.mkdir()
        (folder / "outage").touch()
        store = self._places.copy(self._empty, f"{self._order.system}_failed")
        trial.first = self._live(self._system.run, store, folder, "first", NEVER, trial)
        (folder / "outage").unlink()
        trial.again = self._live(self._system.resume, store, folder, "again", NEVER, trial)
        trial.effects = lines(folder / "effects")
        return trial

    def _parallel(self) -> Trial:
        trial = Trial("parallel", 0)
        folder = self._folder / "parallel"
        folder.mkdir()
        store = self._places.copy(self._empty, f"{self._order.system}_parallel")
        trial.first = self._live(self._system.spread, store, folder, "first", NEVER, trial)
        trial.calls = lines(folder / "calls")
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
        life = Life("done")
        try:
            told = in_child(self._work(program, store, folder, process, kill_at, kill_when), folder / f"{process}.json")
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

    def _work(
        self, program: Program, store: str, folder: Path, process: str, at: int, when: str = "", *, freeze: bool = False
    ) -> Callable[[], dict[str, Any]]:
        def work() -> dict[str, Any]:
            boundaries = Boundaries(at, folder / "killed", when, freeze=freeze)
            self._system.watch(boundaries)
            answer = program(store, Doings(folder, process, boundaries))
            return {"answer": answer, "boundaries": boundaries.passed}

        return work

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
