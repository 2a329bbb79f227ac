"""The probe's verdicts: each property is held by what it means, and broken by the smallest thing that it forbids."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.agent import CALLS, EFFECTS, REFUSED, STEPS, expected
from conformance.order import LOCKED, Life, Trial
from conformance.places import Files
from conformance.properties import ANSWERS, Verdict, judge

RESULTS = [f"{step} 0001" if step == "draw" else expected(step) for step in STEPS]
RECORD = [[step, result] for step, result in zip(STEPS, RESULTS, strict=True)]


def killed_in_step_four() -> Trial:
    """Three steps are recorded, the fourth had begun."""
    return Trial(
        kind="steps",
        number=7,
        at="before commit",
        first=Life("killed", list(STEPS[:4])),
        recorded=RECORD[:3],
        again=Life("done", list(STEPS[3:]), RESULTS),
        recorded_at_end=RECORD,
        fork=Life("done", list(STEPS[3:]), RESULTS),
        fork_recorded_at_end=RECORD,
        effects=["pay", "mail", "book"],
    )


def verdicts(trial: Trial, **not_promised: str) -> dict[str, Verdict]:
    return {verdict.name: verdict for verdict in judge([trial], not_promised)}


def broken(trial: Trial) -> set[str]:
    return {name for name, verdict in verdicts(trial).items() if verdict.broken}


def test_a_kill_that_costs_nothing_but_the_step_in_flight_breaks_nothing() -> None:
    assert broken(killed_in_step_four()) == set()


BREAKS: dict[str, tuple[str, Callable[[Trial], Trial]]] = {
    "a step that was recorded runs again": (
        "prefix continuation",
        lambda trial: replace(trial, again=Life("done", list(STEPS[2:]), RESULTS), fork=Life("done", list(STEPS[2:]), RESULTS)),
    ),
    "a step that was not recorded is skipped": (
        "prefix continuation",
        lambda trial: replace(trial, again=Life("done", list(STEPS[4:]), RESULTS), fork=Life("done", list(STEPS[4:]), RESULTS)),
    ),
    "a step began before the one before it was recorded": (
        "prefix continuation",
        lambda trial: replace(trial, first=Life("killed", list(STEPS[:5]))),
    ),
    "a recorded effect happens twice": (
        "recorded effects exactly once",
        lambda trial: replace(trial, effects=["pay", "pay", "mail", "book"]),
    ),
    "an effect never happens": ("recorded effects exactly once", lambda trial: replace(trial, effects=["pay", "mail"])),
    "the copy goes on elsewhere": (
        "fork determinism",
        lambda trial: replace(trial, fork=Life("done", list(STEPS[4:]), RESULTS)),
    ),
    "the copy draws again what was recorded": (
        "fork determinism",
        lambda trial: replace(trial, fork=Life("done", list(STEPS[3:]), [RESULTS[0], "draw 0002", *RESULTS[2:]])),
    ),
    "the record cannot be read": (
        "checkpoint validity, prefix continuation",
        lambda trial: replace(trial, recorded=None),
    ),
    "the program never ends": (
        "recovery determinism",
        lambda trial: replace(
            trial,
            again=Life("hung", list(STEPS[3:])),
            fork=Life("hung", list(STEPS[3:])),
        ),
    ),
    "the end is recorded with a step too many": (
        "recovery determinism",
        lambda trial: replace(trial, recorded_at_end=[*RECORD, RECORD[-1]]),
    ),
    "the answer is not the record": (
        "recovery determinism",
        lambda trial: replace(trial, recorded_at_end=[RECORD[0], ["draw", "draw 0002"], *RECORD[2:]]),
    ),
}


@pytest.mark.parametrize("what", BREAKS)
def test_what_a_property_forbids_breaks_that_property_and_no_other(what: str) -> None:
    names, spoil = BREAKS[what]

    assert broken(spoil(killed_in_step_four())) == set(names.split(", "))


def test_an_effect_in_doubt_may_be_found_to_have_happened_instead_of_running_again() -> None:
    trial = killed_in_step_four()
    trial.at, trial.recorded, trial.first = "after effect pay", RECORD[:2], Life("killed", list(STEPS[:3]))

    assert broken(trial) == set()
    assert verdicts(trial)["effects in doubt are not repeated"].trials == 1


def test_an_effect_in_doubt_that_happens_again_is_seen() -> None:
    trial = killed_in_step_four()
    trial.at, trial.recorded, trial.first = "after effect pay", RECORD[:2], Life("killed", list(STEPS[:3]))
    trial.again, trial.fork = Life("done", list(STEPS[2:]), RESULTS), Life("done", list(STEPS[2:]), RESULTS)
    trial.effects = ["pay", "pay", "mail", "book"]

    assert broken(trial) == {"effects in doubt are not repeated"}


def test_what_the_documentation_does_not_promise_is_not_offered() -> None:
    trial = Trial("altered", 0, first=Life("killed"), again=Life("done", answer=["look is gone"]))
    name = "an altered record is noticed"

    assert verdicts(trial)[name].outcome == "broken, 1 of 1"
    judged = {verdict.name: verdict for verdict in judge([trial], {name: "no checksums"})}
    assert judged[name].outcome == "not offered"


def test_what_no_kill_reached_is_not_called_held() -> None:
    verdict = verdicts(killed_in_step_four())["consume-once"]

    assert (verdict.outcome, verdict.held) == ("not reached", False)


@pytest.mark.parametrize("answers", [[ANSWERS[0], ANSWERS[0]], [ANSWERS[0]], [*ANSWERS, ANSWERS[1]]])
def test_an_answer_that_is_lost_or_used_twice_breaks_consume_once(answers: list[str]) -> None:
    trial = Trial("questions", 3, first=Life("killed"), again=Life("done", answer=answers))

    assert broken(trial) == {"consume-once"}


def test_an_effect_that_a_thawed_process_repeats_is_seen() -> None:
    name = "effects under freeze happen once"
    trial = Trial("frozen", 3, at="after commit", first=Life("frozen"), again=Life("done"), effects=["pay", "mail", "book"])

    assert verdicts(trial)[name].outcome == "held, 1 of 1"
    assert verdicts(replace(trial, effects=["pay", "mail", "book", "pay"]))[name].outcome == "broken, 1 of 1"
    assert verdicts(replace(trial, at="before commit"))[name].outcome == "not reached"


def test_two_keys_for_one_payment_are_seen() -> None:
    name = "keys are stable over repetitions"
    trial = Trial("payment", 3, first=Life("killed"), again=Life("done"), keys=["k1", "k1", "k1"])

    assert verdicts(trial)[name].outcome == "held, 1 of 1"
    assert verdicts(replace(trial, keys=["k1", "k2"]))[name].outcome == "broken, 1 of 1"
    assert verdicts(replace(trial, keys=["k1"]))[name].outcome == "not reached"


def test_a_resumed_job_that_repeats_a_recorded_step_is_seen() -> None:
    name = "a failed job resumes where it failed"
    trial = Trial("failed", 0, first=Life("failed", list(STEPS[:6])), again=Life("done", list(STEPS[5:]), RESULTS))

    assert verdicts(trial)[name].outcome == "held, 1 of 1"
    assert verdicts(replace(trial, again=Life("done", list(STEPS), RESULTS)))[name].outcome == "broken, 1 of 1"
    assert verdicts(replace(trial, again=Life("failed")))[name].outcome == "broken, 1 of 1"


def test_parallel_calls_that_are_repeated_without_need_are_seen() -> None:
    name = "parallel work keeps what succeeded"
    trial = Trial("parallel", 0, calls=[*CALLS, *REFUSED])

    assert verdicts(trial)[name].outcome == "held, 1 of 1"
    assert verdicts(replace(trial, calls=[*CALLS, *CALLS]))[name].outcome == "broken, 1 of 1"


def test_a_trial_survives_the_way_between_the_processes() -> None:
    assert Trial.read(killed_in_step_four().text()) == killed_in_step_four()


def test_a_freeze_that_kept_the_file_locked_is_counted_apart() -> None:
    locked = Trial("frozen", 3, at=LOCKED, first=Life("frozen"), effects=["pay"])
    proper = Trial("frozen", 4, at="after commit", first=Life("frozen"), again=Life("done"), effects=list(EFFECTS))

    (verdict,) = [verdict for verdict in judge([locked, proper]) if verdict.name == "effects under freeze happen once"]

    assert (verdict.trials, verdict.locked, verdict.broken) == (1, 1, [])


@pytest.mark.parametrize("journal_mode", ["wal", "delete"])
def test_the_lock_of_a_file_is_traced_to_the_process_that_was_stopped_in_a_transaction(tmp_path: Path, journal_mode: str) -> None:
    places = Files(tmp_path)
    store = places.new("store")
    program = STOPS_IN_A_TRANSACTION.format(file=store.removeprefix("sqlite:///"), mode=journal_mode)
    process = subprocess.Popen([sys.executable, "-c", program])
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    stopped = places.lock_holder(store)
    with pytest.raises(sqlite3.OperationalError, match="locked"), closing(_connected(store)) as other:
        other.execute("begin immediate")

    process.send_signal(signal.SIGCONT)
    process.wait(30)

    assert (stopped, places.lock_holder(store)) == (process.pid, None)
    with closing(_connected(store)) as other:
        other.execute("begin immediate")


STOPS_IN_A_TRANSACTION = """
import os, signal, sqlite3
connection = sqlite3.connect({file!r}, isolation_level=None)
connection.execute("pragma journal_mode = {mode}")
connection.execute("create table t (x)")
connection.execute("begin immediate")
os.kill(os.getpid(), signal.SIGSTOP)
connection.execute("commit")
"""


def _connected(store: str) -> sqlite3.Connection:
    return sqlite3.connect(store.removeprefix("sqlite:///"), timeout=0, isolation_level=None)
