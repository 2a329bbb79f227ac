"""Scopes and names of durable calls, and `ctx.patched`.

Where in a handler a durable call stands: its branch, its name, its occurrence. Together they are its identity.

build#1                       the first step "build" of the handler
deploy#2/check#1              the first "check" inside the second "deploy"
gather#1[0]/fetch#1           the first "fetch" in the first branch of the first gather
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from cortex_plane.errors import InvalidInput
from cortex_plane.worker.failures import mark_step

if TYPE_CHECKING:
    from cortex_plane.durable.checkpoint import Recorder

NAME_LIMIT = 200

Begins = Callable[[str], None]


class StepScope:
    """A branch of the handler: counts the occurrences of each name in it. `begins` is called with each call that begins."""

    __slots__ = ("_begins", "_seen", "in_gather", "in_step", "path")

    def __init__(self, begins: Begins, path: str = "", *, in_step: bool = False, in_gather: bool = False) -> None:
        self._begins, self.path, self.in_step, self.in_gather = begins, path, in_step, in_gather
        self._seen: dict[str, int] = {}

    @property
    def is_branch(self) -> bool:
        """Of a gather, or the handler itself: not inside of a call."""
        return not self.path or self.path.endswith("]/")

    def key(self, name: str) -> str:
        """The identity of a durable call that begins here now."""
        count = self._seen[name] = self._seen.get(name, 0) + 1
        key = f"{self.path}{name}#{count}"
        self._begins(key)
        return key

    def inside(self, key: str) -> StepScope:
        return StepScope(self._begins, f"{key}/", in_step=True, in_gather=self.in_gather)

    def branches(self, count: int) -> list[StepScope]:
        gather = self.key("gather")
        return [StepScope(self._begins, f"{gather}[{number}]/", in_step=self.in_step, in_gather=True) for number in range(count)]


_current: ContextVar[StepScope | None] = ContextVar("cortex_scope", default=None)


class Scopes:
    """The scopes of one run, and the tasks that may use them."""

    def __init__(self, begins: Begins) -> None:
        self._top = StepScope(begins)
        self._tasks: set[asyncio.Task[object] | None] = {asyncio.current_task()}

    def here(self) -> StepScope:
        if asyncio.current_task() not in self._tasks:
            raise InvalidInput(
                "The context was used from a task that it does not know, so its steps could not be told apart when the job is "
                "resumed. Use ctx.gather(...) instead of asyncio.gather and create_task.",
                field="ctx",
            )
        return _current.get() or self._top

    @property
    def path(self) -> str:
        """Where the handler is."""
        return (_current.get() or self._top).path

    def adopt(self) -> None:
        """The task that runs now is the handler's."""
        self._tasks.add(asyncio.current_task())

    def entered(self, scope: StepScope) -> Entered:
        """A `with` block in which calls of this task belong to the scope."""
        return Entered(self._tasks, scope)


class Entered:
    __slots__ = ("_known", "_scope", "_task", "_tasks", "_token")

    def __init__(self, tasks: set[asyncio.Task[object] | None], scope: StepScope) -> None:
        self._tasks, self._scope = tasks, scope

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._known = self._task in self._tasks
        self._tasks.add(self._task)
        self._token = _current.set(self._scope)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and not self._scope.is_branch:
            mark_step(error, self._scope.path.removesuffix("/"))
        _current.reset(self._token)
        if not self._known:
            self._tasks.discard(self._task)


def checked_step_name(name: str) -> str:
    if callable(name):
        function = getattr(name, "__name__", "f")
        raise InvalidInput(
            f'A step needs a name, and the function after it: write ctx.step("{function}", {function}, …) instead of '
            f"ctx.step({function}, …).",
            field="name",
        )
    if not isinstance(name, str) or not name or len(name) > NAME_LIMIT or not name.isprintable():
        raise InvalidInput(f"A step needs a name of at most {NAME_LIMIT} characters, not {name!r:.80}.", field="name")
    if "#" in name or name.startswith("$"):
        raise InvalidInput(f'The step name {name!r} must not contain "#" or begin with "$".', field="name")
    return name


# -- patching ----------------------------------------------------------------------------------
# `ctx.patched(...)`: new code for new work, the old code for jobs that have gone past the place already.
#
# not recorded yet:  a recorded call was not requested by this run ──▶ False: the job was beyond this place
#                    nothing is                                            ──▶ True
# recorded:          the recorded answer. It is saved with the next write; until then nothing saved depends on it


BRANCH = re.compile(r"\[\d+\]/")
OUT_OF_ORDER = ("$budget#", "$uncertain ", "$patched ")
"""Entries that a later run does not ask for again, or not at the same place."""


def patched(recorder: Recorder, name: str) -> bool:
    """One answer for each name in a job, at every place of use."""
    recorder.check()
    path = recorder.scopes.here().path
    key, journal = f"$patched {checked_step_name(name)}#1", recorder.journal
    entry = journal.take(key)
    if entry is not None:
        return bool(entry["result"])
    is_new = not any(is_beyond(other, path) for other in journal.unasked)
    journal.put(key, {"kind": "patched", "result": is_new})
    return is_new


def is_beyond(key: str, path: str) -> bool:
    """Whether this entry shows that the job has passed the place. Entries of sibling branches do not."""
    return not key.startswith(OUT_OF_ORDER) and sibling_branches(path, key) is None


def sibling_branches(path: str, key: str) -> tuple[str, str] | None:
    """The two branches of one gather that contain the two calls, that of `path` first; None if there are none."""
    for branch in BRANCH.finditer(path):
        gather, own = path[: branch.start()], path[: branch.end()]
        if key.startswith(f"{gather}[") and not key.startswith(own):
            other = BRANCH.match(key, branch.start())
            return None if other is None else (own, key[: other.end()])
    return None
