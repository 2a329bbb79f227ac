"""Where in a handler a durable call stands: its branch, its name, its occurrence. Together they are its identity.

build#1                       the first step "build" of the handler
deploy#2/check#1              the first "check" inside the second "deploy"
gather#1[0]/fetch#1           the first "fetch" in the first branch of the first gather
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from cortex_plane.core.errors import InvalidInput

NAME_LIMIT = 200


class Scope:
    """A branch of the handler: counts how often each name was used in it."""

    __slots__ = ("_seen", "in_gather", "in_step", "path")

    def __init__(self, path: str = "", *, in_step: bool = False, in_gather: bool = False) -> None:
        self.path, self.in_step, self.in_gather = path, in_step, in_gather
        self._seen: dict[str, int] = {}

    def key(self, name: str) -> str:
        count = self._seen[name] = self._seen.get(name, 0) + 1
        return f"{self.path}{name}#{count}"

    def inside(self, key: str) -> Scope:
        return Scope(f"{key}/", in_step=True, in_gather=self.in_gather)

    def branches(self, count: int) -> list[Scope]:
        gather = self.key("gather")
        return [Scope(f"{gather}[{number}]/", in_step=self.in_step, in_gather=True) for number in range(count)]


_current: ContextVar[Scope | None] = ContextVar("cortex_scope", default=None)


class Scopes:
    """The scopes of one run, and the tasks that may use them."""

    def __init__(self) -> None:
        self._top = Scope()
        self._tasks: set[asyncio.Task[object] | None] = {asyncio.current_task()}

    def here(self) -> Scope:
        if asyncio.current_task() not in self._tasks:
            raise InvalidInput(
                "The context was used from a task that it does not know, so its steps could not be told apart when the job is "
                "resumed. Use ctx.gather(...) instead of asyncio.gather and create_task.",
                field="ctx",
            )
        return _current.get() or self._top

    def adopt(self) -> None:
        """The task that runs now is the handler's."""
        self._tasks.add(asyncio.current_task())

    def entered(self, scope: Scope) -> Entered:
        """For a `with` block: what is asked for inside of it belongs to this scope, and its task may ask."""
        return Entered(self._tasks, scope)


class Entered:
    __slots__ = ("_known", "_scope", "_task", "_tasks", "_token")

    def __init__(self, tasks: set[asyncio.Task[object] | None], scope: Scope) -> None:
        self._tasks, self._scope = tasks, scope

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._known = self._task in self._tasks
        self._tasks.add(self._task)
        self._token = _current.set(self._scope)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
        if not self._known:
            self._tasks.discard(self._task)


def checked_step_name(name: str) -> str:
    if not isinstance(name, str) or not name or len(name) > NAME_LIMIT or not name.isprintable():
        raise InvalidInput(f"A step needs a name of at most {NAME_LIMIT} characters, not {name!r:.80}.", field="name")
    if "#" in name or name.startswith("$"):
        raise InvalidInput(f'The step name {name!r} must not contain "#" or begin with "$".', field="name")
    return name
