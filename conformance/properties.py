"""The properties of durable agents, each as a question about one trial. docs/conformance.md says the same in prose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from conformance.agent import BROKEN_STEP, CALLS, CHANCE, EFFECTS, QUESTIONS, REFUSED, STEPS, expected
from conformance.order import LOCKED, Life, Trial

Judge = Callable[[Trial], str]
"""What is wrong, or nothing."""

ANSWERS = [f"yes to the {question}" for question in QUESTIONS]


@dataclass(slots=True)
class Verdict:
    name: str
    trials: int = 0
    broken: list[str] = field(default_factory=list)
    not_offered: str = ""
    locked: int = 0
    """Trials that could not be made: the frozen process held the lock of the SQLite file."""

    @property
    def outcome(self) -> str:
        if self.not_offered:
            return "not offered"
        if not self.trials:
            return "not reached"
        return f"broken, {len(self.broken)} of {self.trials}" if self.broken else f"held, {self.trials} of {self.trials}"

    @property
    def held(self) -> bool:
        return bool(self.trials) and not self.broken and not self.not_offered


def judge(trials: Sequence[Trial], not_promised: Mapping[str, str] = MappingProxyType({})) -> list[Verdict]:
    """What a system's own documentation does not promise is not held against it: it is not offered."""
    verdicts = [_verdict(name, kind, judge, trials) for name, (kind, judge) in (SIX | BEYOND).items()]
    for verdict in verdicts:
        if verdict.broken and verdict.name in not_promised:
            seen = f"{len(verdict.broken)} of {verdict.trials} trials, such as {verdict.broken[0]}"
            verdict.not_offered = f"{not_promised[verdict.name]}; seen in {seen}"
            verdict.broken = []
    return verdicts


def _verdict(name: str, kind: str, judge: Judge, trials: Iterable[Trial]) -> Verdict:
    verdict = Verdict(name)
    for trial in trials:
        if trial.kind != kind:
            continue
        verdict.not_offered = verdict.not_offered or trial.not_offered
        verdict.locked += trial.at == LOCKED
        if trial.was_disturbed and applies(judge, trial):
            verdict.trials += 1
            if wrong := judge(trial):
                verdict.broken.append(f"{trial.at or 'kill'} ({trial.number}): {wrong}")
    return verdict


def applies(judge: Judge, trial: Trial) -> bool:
    """Only a kill between an effect and its record leaves the effect in doubt; only a repeated payment has two keys."""
    if judge is doubt:
        return bool(_in_doubt(trial))
    if judge is stable_keys:
        return len(trial.keys) > 1
    if judge is freeze:  # Before a commit it is in a transaction; in an effect nothing can stop it when it is continued.
        return trial.at == "after commit"
    return True


def prefix_continuation(trial: Trial) -> str:
    """No step begins before the one before it is recorded; after the kill exactly the unrecorded steps run, in order."""
    if trial.recorded is None or trial.again is None:
        return "the recorded state could not be read"
    done = len(trial.recorded)
    if trial.first.executed != list(STEPS[: len(trial.first.executed)]):
        return f"the steps ran as {', '.join(trial.first.executed)}"
    if done < len(trial.first.executed) - 1:
        return f"{len(trial.first.executed)} steps had begun and only {done} were recorded"
    settled = _in_doubt(trial) == list(STEPS[done : done + 1])  # A system may find out that the effect in doubt did happen.
    if trial.again.executed != list(STEPS[done:]) and not (settled and trial.again.executed == list(STEPS[done + 1 :])):
        return f"after {done} recorded steps it ran {', '.join(trial.again.executed) or 'nothing'}"
    return ""


def effects_once(trial: Trial) -> str:
    """An effect that was recorded as done happens once, whatever follows."""
    for step, _ in trial.recorded or []:
        if step in EFFECTS and trial.effects.count(step) != 1:
            return f"{step} was recorded and happened {trial.effects.count(step)} times"
    missing = [step for step in EFFECTS if step not in trial.effects]
    return f"{', '.join(missing)} never happened" if missing else ""


def fork_determinism(trial: Trial) -> str:
    """Two copies of the store, gone on with separately, do the same."""
    if trial.again is None or trial.fork is None:
        return "it was not gone on with"
    if trial.again.executed != trial.fork.executed:
        return f"one ran {', '.join(trial.again.executed)}, the other {', '.join(trial.fork.executed)}"
    kept = len(trial.recorded or [])
    if _without_chance(trial.again, kept) != _without_chance(trial.fork, kept):
        return f"one ended with {_end_of(trial.again)}, the other with {_end_of(trial.fork)}"
    return ""


def checkpoint_validity(trial: Trial) -> str:
    """Whenever it is killed, what is stored can be read, and is a true beginning of the undisturbed run."""
    if trial.recorded is None:
        return "the system could not read what it had stored"
    return _not_a_beginning(trial.recorded)


def consume_once(trial: Trial) -> str:
    """An answer that was taken is given to its question, once: not lost, not used again, not asked for again."""
    if trial.again is None or trial.again.answer is None:
        return f"the agent never ended: {trial.again.trouble if trial.again else ''}"
    return "" if trial.again.answer == ANSWERS else f"it ended with {trial.again.answer}"


def recovery_determinism(trial: Trial) -> str:
    """Started again, the program ends by itself as the undisturbed one: same answer, same record, and chance as recorded."""
    life = trial.again
    if life is None or life.ended != "done" or life.answer is None:
        return f"it did not end: {life.trouble if life else ''}"
    if trial.recorded_at_end is None or [step for step, _ in trial.recorded_at_end] != list(STEPS):
        return "the record at the end is not the ten steps"
    if [result for _, result in trial.recorded_at_end] != life.answer:
        return "the answer is not what was recorded"
    kept = [result for _, result in trial.recorded or []]
    if life.answer[: len(kept)] != kept:
        return "a recorded result changed"
    return _not_a_beginning(trial.recorded_at_end)


def doubt(trial: Trial) -> str:
    """An effect that happened just before the kill, and was not recorded as done, does not happen again."""
    repeated = [step for step in _in_doubt(trial) if trial.effects.count(step) != 1]
    return f"{', '.join(repeated)} happened again" if repeated else ""


def alteration(trial: Trial) -> str:
    """A stored result that was changed behind the system's back is noticed, and nothing is run on it."""
    if trial.again is None or trial.again.ended == "failed":
        return ""
    return f"it went on, and ended with {trial.again.answer}" if trial.again.answer else ""


def freeze(trial: Trial) -> str:
    """A process that was frozen past its lease, and continued when another had finished the work, repeats no effect."""
    if trial.again is None or trial.again.ended != "done":
        return f"the other process did not finish: {trial.again.trouble if trial.again else ''}"
    wrong = [f"{step} happened {count} times" for step in EFFECTS if (count := trial.effects.count(step)) != 1]
    return ", ".join(wrong)


def stable_keys(trial: Trial) -> str:
    """Every repetition of one payment carries the same idempotency key."""
    return "" if len(set(trial.keys)) == 1 else f"{len(trial.keys)} calls carried {len(set(trial.keys))} keys"


def resume(trial: Trial) -> str:
    """A failed job goes on from the step that failed; recorded steps do not run again."""
    if trial.again is None or trial.again.ended != "done":
        return f"it could not be resumed: {trial.again.trouble if trial.again else ''}"
    wanted = list(STEPS[STEPS.index(BROKEN_STEP) :])
    return "" if trial.again.executed == wanted else f"it ran {', '.join(trial.again.executed)}"


def partial_failure(trial: Trial) -> str:
    """Of parallel calls only those that were refused are made again: N calls with k refusals make N + k calls."""
    wanted = len(CALLS) + len(REFUSED)
    if trial.first.ended != "done":
        return f"it did not end: {trial.first.trouble}"
    return "" if len(trial.calls) == wanted else f"{len(CALLS)} calls with {len(REFUSED)} refusals made {len(trial.calls)} calls"


def _end_of(life: Life) -> str:
    return str(life.answer) if life.answer is not None else f"nothing ({life.trouble})"


def _in_doubt(trial: Trial) -> list[str]:
    recorded = {step for step, _ in trial.recorded or []}
    happened = [step for step in trial.first.executed if step in EFFECTS and step not in recorded]
    return [step for step in happened if trial.at != f"before effect {step}"]


def _not_a_beginning(recorded: Sequence[Sequence[str]]) -> str:
    for (step, result), wanted in zip(recorded, STEPS, strict=False):
        if step != wanted or (step != CHANCE and result != expected(step)):
            return f"where {wanted} belongs, {step} is recorded with {result!r}"
    return ""


def _without_chance(life: Life, kept: int) -> list[str] | None:
    """What was drawn after the kill may differ; what was drawn before may not."""
    if life.answer is None:
        return None
    drawn = STEPS.index(CHANCE)
    return [result for number, result in enumerate(life.answer) if number != drawn or drawn < kept]


SIX: dict[str, tuple[str, Judge]] = {
    "prefix continuation": ("steps", prefix_continuation),
    "recorded effects exactly once": ("steps", effects_once),
    "fork determinism": ("steps", fork_determinism),
    "checkpoint validity": ("steps", checkpoint_validity),
    "consume-once": ("questions", consume_once),
    "recovery determinism": ("steps", recovery_determinism),
}
BEYOND: dict[str, tuple[str, Judge]] = {
    "effects in doubt are not repeated": ("steps", doubt),
    "an altered record is noticed": ("altered", alteration),
    "effects under freeze happen once": ("frozen", freeze),
    "keys are stable over repetitions": ("payment", stable_keys),
    "a failed job resumes where it failed": ("failed", resume),
    "parallel work keeps what succeeded": ("parallel", partial_failure),
}
