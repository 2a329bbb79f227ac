"""The probe's verdicts: each property is held by what it means, and broken by the smallest thing that it forbids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from conformance.agent import STEPS, expected
from conformance.order import Life, Trial
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
    assert verdicts(trial)["effects in doubt are not repeated"].kills == 1


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
    assert judge([trial], {name: "no checksums"})[-1].outcome == "not offered"


def test_what_no_kill_reached_is_not_called_held() -> None:
    verdict = verdicts(killed_in_step_four())["consume-once"]

    assert (verdict.outcome, verdict.held) == ("not reached", False)


@pytest.mark.parametrize("answers", [[ANSWERS[0], ANSWERS[0]], [ANSWERS[0]], [*ANSWERS, ANSWERS[1]]])
def test_an_answer_that_is_lost_or_used_twice_breaks_consume_once(answers: list[str]) -> None:
    trial = Trial("questions", 3, first=Life("killed"), again=Life("done", answer=answers))

    assert broken(trial) == {"consume-once"}


def test_a_trial_survives_the_way_between_the_processes() -> None:
    assert Trial.read(killed_in_step_four().text()) == killed_in_step_four()
