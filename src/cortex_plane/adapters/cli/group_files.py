"""A group as a file of JSON: its members, what is to happen when one fails, and what when all have ended."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cortex_plane.adapters.cli.times import duration, moment
from cortex_plane.core.errors import InvalidInput, NotFound, did_you_mean
from cortex_plane.operations.submit_jobs import Submission

SETTINGS = ("name", "mode", "on_failure")
GROUP_FIELDS = ("members", "callback", *SETTINGS)
JOB_FIELDS = (
    *("agent", "payload", "queue", "priority", "run_at", "delay", "timeout", "max_retries"),
    *("job_key", "key_mode", "serial_key", "tags"),
)
A_WHILE = "90, 5m or 1h30m"
A_TIME = "2026-01-05T09:00 for UTC, or 2026-01-05T09:00+01:00"
HOW = 'Write {"members": [{"agent": "greet", "payload": {"name": "Ada"}}, …], "mode": "sequential"}.'


@dataclass(frozen=True, slots=True)
class GroupFile:
    members: list[Submission]
    callback: Submission | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """Its name, mode and on_failure, as far as the file says."""

    def place_of(self, agent: str) -> str:
        """The first who asks for this agent, as the file names him."""
        places = (f"members[{place}]" for place, member in enumerate(self.members) if member.agent == agent)
        return next(places, "callback")


def read_group(file: str, tenant: str, created_by: str) -> GroupFile:
    """From a file, or from stdin where its name is `@-`. Values are checked when they are submitted."""
    found = _object(_json(file), "The group", GROUP_FIELDS)
    if not isinstance(found.get("members"), list):
        raise InvalidInput(f"members must be a list of jobs. {HOW}", field="members")
    signed = {"tenant": tenant, "created_by": created_by}
    members = [_submission(member, f"members[{place}]", signed) for place, member in enumerate(found["members"])]
    callback = found.get("callback")
    return GroupFile(
        members,
        None if callback is None else _submission(callback, "callback", signed),
        {name: found[name] for name in SETTINGS if found.get(name) is not None},
    )


def _json(file: str) -> Any:
    from cortex_plane.ports.json_text import loads

    try:
        return loads(sys.stdin.read() if file == "@-" else Path(file).read_text())
    except FileNotFoundError:
        raise NotFound(f"There is no file {file}. You are in {Path.cwd()}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}", field="FILE") from None
    except ValueError as error:
        raise InvalidInput(f"{file} is not valid JSON: {error}.\n{HOW}", field="FILE") from None


def _object(value: Any, where: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be a JSON object, not {value!r:.60}.\n{HOW}", field=where)
    for name in value:
        if name not in known:
            hint = did_you_mean(name, known) or f" There are: {', '.join(known)}."
            raise InvalidInput(f'{where} has no field "{name:.60}".{hint}', field=f"{where}.{name}")
    return value


def _submission(value: Any, where: str, signed: Mapping[str, Any]) -> Submission:
    asked = {name: content for name, content in _object(value, where, JOB_FIELDS).items() if content is not None}
    if "agent" not in asked:
        raise InvalidInput(f"{where}.agent is missing: the name of the agent that is to run.", field=f"{where}.agent")
    for name, read, how in (("delay", duration, A_WHILE), ("timeout", duration, A_WHILE), ("run_at", moment, A_TIME)):
        if isinstance(asked.get(name), str):
            try:
                asked[name] = read(asked[name], name)
            except InvalidInput:
                raise InvalidInput(f"{where}.{name} is {asked[name]!r:.60}. Write {how}.", field=f"{where}.{name}") from None
    return Submission(**asked, **signed)
