"""`plane.groups`: submit, show, wait, cancel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from cortex_plane.costs.service import check_budgets
from cortex_plane.errors import InvalidInput, did_you_mean
from cortex_plane.groups.model import (
    LARGEST_GROUP,
    Group,
    GroupFinished,
    GroupId,
    GroupMode,
    GroupNotFinished,
    GroupNotFound,
    GroupStatus,
    Member,
    NewGroup,
    OnFailure,
)
from cortex_plane.ids import DASHES, ID_LENGTH, PART_OF_AN_ID, NewId
from cortex_plane.jobs.fields import PAYLOAD_LIMIT_BYTES, Submission
from cortex_plane.jobs.lookup import FIRST_PAUSE_SECONDS, GROWTH, LONGEST_PAUSE_SECONDS
from cortex_plane.jobs.model import DEFAULT_TENANT, Claimed, Job, JobId, NewJob
from cortex_plane.jobs.submission import checked
from cortex_plane.json import encode
from cortex_plane.people.model import checked_noun_name
from cortex_plane.people.sessions import check_sessions

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.client import Client
    from cortex_plane.clock import Clock
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


async def find_group_id(store: Store, id_or_prefix: str) -> GroupId:
    prefix = id_or_prefix.strip().lower()
    if not PART_OF_AN_ID.fullmatch(prefix) or any((char == "-") != (place in DASHES) for place, char in enumerate(prefix)):
        raise InvalidInput(f"{id_or_prefix!r:.60} is not a group id, nor the first four or more characters of one.", field="id")
    if len(prefix) == ID_LENGTH:
        return GroupId(prefix)
    found = await store.groups.find(prefix)
    if not found:
        raise GroupNotFound(prefix)
    if len(found) > 1:
        raise InvalidInput(
            f"{prefix} matches {len(found)} or more groups: {', '.join(found[:3])}, … Give more characters of the id.", field="id"
        )
    return found[0]


# -- show group --------------------------------------------------------------------------------
# A group as it stands, and its members.


async def show_group(store: Store, id_or_prefix: str) -> Group:
    group_id = await find_group_id(store, id_or_prefix)
    group = await store.groups.get(group_id)
    if group is None:
        raise GroupNotFound(group_id)
    return group


async def group_members(store: Store, id_or_prefix: str, *, limit: int = LARGEST_GROUP) -> list[Member]:
    return await store.groups.members((await show_group(store, id_or_prefix)).id, limit=limit)


# -- submit group ------------------------------------------------------------------------------
# Submits jobs that belong together: all of them or none, and what is to happen when one fails and when all have ended.


Choice = TypeVar("Choice", bound=str)


async def submit_group(
    store: Store,
    directory: Directory,
    new_id: NewId,
    members: Sequence[Submission],
    *,
    mode: GroupMode = "parallel",
    on_failure: OnFailure = "stop",
    callback: Submission | None = None,
    name: str | None = None,
    key: str | None = None,
    created_by: str | None = None,
    parent: Claimed | None = None,
    connection: Any = None,
    payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
    trace: str | None = None,
) -> tuple[GroupId, list[JobId]]:
    """The id of the group and those of its members, in their order. Under a key that was used before: those of that group.
    With a parent, a running job, they are of its tenant and its submitter."""
    _check_members(members)
    tenant = members[0].tenant
    group = NewGroup(
        id=GroupId(new_id()),
        tenant_id=await directory.tenant(tenant) if parent is None else parent.tenant_id,
        mode=_one_of("mode", mode, get_args(GroupMode)),
        on_failure=_one_of("on_failure", on_failure, get_args(OnFailure)),
        name=None if name is None else checked_noun_name(name),
        key=None if key is None else checked_noun_name(key, "key"),
        created_by=None if created_by is None else checked_noun_name(created_by, "created_by"),
    )
    if callback is not None:
        job = await _checked_callback(directory, new_id, callback, tenant, payload_limit_bytes)
        group = replace(group, callback=replace(job, trace_id=trace))
    jobs = [
        await _checked_member(directory, new_id, place, member, tenant, payload_limit_bytes)
        for place, member in enumerate(members)
    ]
    # Members take their turns in the order of their ids, whatever the clock did while those were made.
    ids = sorted(job.id for job in jobs)
    jobs = [replace(job, id=job_id, group_id=group.id, trace_id=trace) for job, job_id in zip(jobs, ids, strict=True)]
    if parent is not None:
        group, jobs = await _of_parent(store, parent, group, jobs)
    if key is not None:
        request_hash = _request_hash(group, jobs)
        group = replace(group, request_hash=request_hash)
        found = await store.groups.by_key(group.tenant_id, key, request_hash)
        if found is not None:
            return found
    await check_sessions(store, jobs)
    await check_budgets(store, directory, jobs)
    return await store.groups.add(group, jobs, new_id, connection)


async def _of_parent(store: Store, parent: Claimed, group: NewGroup, jobs: Sequence[NewJob]) -> tuple[NewGroup, list[NewJob]]:
    """Of its tenant, submitted by whoever submitted it. They are no children: it does not wait for them."""
    job = await store.jobs.get(parent.job_id)

    def own(one: NewJob) -> NewJob:
        one = replace(one, tenant_id=parent.tenant_id)
        return one if job is None else _inherited(one, job)

    callback = None if group.callback is None else own(group.callback)
    by = None if job is None else job.created_by
    return replace(group, callback=callback, created_by=group.created_by or by), [own(one) for one in jobs]


def _inherited(one: NewJob, parent: Job) -> NewJob:
    behind = (parent.created_by, *parent.submitters, f"session:{parent.session_id}" if parent.session_id else None)
    return replace(
        one,
        created_by=one.created_by or parent.created_by,
        submitters=tuple(dict.fromkeys(by for by in behind if by is not None)),
        session_id=one.session_id or parent.session_id,
        schedule_id=parent.schedule_id,
        request_id=parent.request_id,
        trace_id=one.trace_id or parent.trace_id,
    )


def _request_hash(group: NewGroup, jobs: Sequence[NewJob]) -> str:
    """Of what was asked for, whoever asks: without ids, names of callers and fields that hold nothing."""
    asked = [group.mode, group.on_failure, group.name, *(None if job is None else _asked(job) for job in (group.callback, *jobs))]
    return sha256(encode(asked, "members").encode()).hexdigest()


def _asked(job: NewJob) -> dict[str, Any]:
    left_out = (
        "id", "group_id", "created_by", "submitters", "parent_id", "schedule_id", "request_id", "trace_id", "session_id",
    )  # fmt: skip
    return {name: _plain(value) for name, value in asdict(job).items() if name not in left_out and value not in (None, (), False)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _check_members(members: Sequence[Submission]) -> None:
    if not members:
        raise InvalidInput("A group needs at least one member.", field="members")
    if len(members) > LARGEST_GROUP:
        raise InvalidInput(
            f"A group has at most {LARGEST_GROUP:,} members, not {len(members):,}. Make several groups of them.", field="members"
        )
    for place, member in enumerate(members):
        if not isinstance(member, Submission):
            raise InvalidInput(
                f"members[{place}] must be a Submission, such as agent.submission(...), not {member!r:.80}.",
                field=f"members[{place}]",
            )


async def _checked_member(
    directory: Directory, new_id: NewId, place: int, asked: Submission, tenant: str, payload_limit_bytes: int
) -> NewJob:
    field = f"members[{place}]"
    if asked.tenant != tenant:
        raise InvalidInput(
            f'{field} belongs to tenant "{asked.tenant}", members[0] to "{tenant}". All members of a group have one tenant.',
            field=f"{field}.tenant",
        )
    if asked.job_key is not None and asked.key_mode == "unsafe_dedupe":
        raise InvalidInput(
            f'{field} has key_mode "unsafe_dedupe", and a job that is there already cannot become a member. Use another mode.',
            field=f"{field}.key_mode",
        )
    return await _checked_as(field, directory, new_id, asked, payload_limit_bytes)


async def _checked_callback(
    directory: Directory, new_id: NewId, asked: Submission, tenant: str, payload_limit_bytes: int
) -> NewJob:
    if not isinstance(asked, Submission):
        raise InvalidInput(f"callback must be a Submission, not {asked!r:.80}.", field="callback")
    if asked.tenant not in (tenant, DEFAULT_TENANT):
        raise InvalidInput(f'callback must belong to tenant "{tenant}", as the members do.', field="callback.tenant")
    if asked.job_key is not None:
        raise InvalidInput("callback is submitted once and takes no job_key.", field="callback.job_key")
    if "group" in (asked.payload or {}):
        raise InvalidInput(
            "callback is given the argument group when the group has ended; its own payload cannot have one.",
            field="callback.payload.group",
        )
    return await _checked_as("callback", directory, new_id, replace(asked, tenant=tenant), payload_limit_bytes, later=("group",))


async def _checked_as(
    field: str,
    directory: Directory,
    new_id: NewId,
    asked: Submission,
    payload_limit_bytes: int,
    later: Collection[str] = (),
) -> NewJob:
    try:
        return await checked(directory, new_id, asked, payload_limit_bytes, later=later)
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error}", field=f"{field}.{error.field}" if error.field else field) from None


def _one_of(field: str, value: Choice, known: Sequence[str]) -> Choice:
    if value not in known:
        hint = did_you_mean(str(value), known)
        raise InvalidInput(f"{field} must be one of {', '.join(known)}, not {value!r:.80}.{hint}", field=field)
    return value


# -- await group -------------------------------------------------------------------------------
# Waits until a group is finished: no member is open any more, and its callback is submitted.


async def await_group(store: Store, clock: Clock, id_or_prefix: str, timeout_seconds: float | None = None) -> Group:
    """However it ended; raises GroupNotFinished when that takes longer."""
    until = None if timeout_seconds is None else clock.elapsed() + timeout_seconds
    pause = FIRST_PAUSE_SECONDS
    while not (group := await show_group(store, id_or_prefix)).is_finished:
        if until is not None and clock.elapsed() + pause > until:
            raise GroupNotFinished(group.id, group.status, group.tally.ended, group.tally.members, timeout_seconds or 0.0)
        await clock.sleep(pause)
        pause = min(pause * GROWTH, LONGEST_PAUSE_SECONDS)
    return group


# -- cancel group ------------------------------------------------------------------------------
# Cancels every member of a group that has not ended. The group is then finished, and its callback is told.


async def cancel_group(
    store: Store, new_id: NewId, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None
) -> tuple[GroupId, int]:
    """The group's id, and how many members were cancelled."""
    group = await show_group(store, id_or_prefix)
    cancelled = await store.groups.cancel(group.id, new_id, actor, reason)
    if not cancelled:
        raise GroupFinished(group.id, (await show_group(store, group.id)).status)
    return group.id, cancelled


# -- groups ------------------------------------------------------------------------------------
# `plane.groups`: jobs that belong together.


LONGEST_LIST = 1000


class GroupHandle:
    """What a submission gives back: the group, and its members in their order."""

    def __init__(self, plane: Plane | Client, group_id: GroupId, job_ids: Sequence[JobId]) -> None:
        self._groups = plane.groups
        self.id = group_id
        self.jobs = [plane.job(job_id) for job_id in job_ids]

    def __repr__(self) -> str:
        return f"GroupHandle({self.id!r})"

    async def group(self) -> Group:
        return await self._groups.get(self.id)

    async def status(self) -> GroupStatus:
        return (await self.group()).status

    async def wait(self, timeout: float | None = None) -> Group:
        """The finished group, however it ended. Raises GroupNotFinished when `timeout` seconds pass."""
        return await self._groups.wait(self.id, timeout=timeout)

    async def cancel(self, reason: str | None = None) -> int:
        return await self._groups.cancel(self.id, reason=reason)


class GroupService:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def submit(
        self,
        members: Iterable[Submission],
        *,
        mode: GroupMode = "parallel",
        on_failure: OnFailure = "stop",
        callback: Submission | None = None,
        name: str | None = None,
        key: str | None = None,
        created_by: str | None = None,
        connection: Any = None,
    ) -> GroupHandle:
        """All of them or none, in one transaction, in this order.

        Submitted again under the same `key` in the same tenant, it is the group that is there already; if members or options
        differ, GroupKeyReused is raised. When no member is open any more, the callback is submitted with the argument `group`:
        id, status, and how many completed, failed and were cancelled."""
        asked = list(members)
        with self._plane.submitting([member.agent for member in asked if isinstance(member, Submission)]) as trace:
            group_id, job_ids = await submit_group(
                self._plane.store,
                self._plane.directory,
                self._plane._ids,
                asked,
                mode=mode,
                on_failure=on_failure,
                callback=callback,
                name=name,
                key=key,
                created_by=created_by,
                connection=connection,
                payload_limit_bytes=self._plane.settings.payload_limit_bytes,
                trace=trace,
            )
        return GroupHandle(self._plane, group_id, job_ids)

    async def get(self, id_or_prefix: str) -> Group:
        return await show_group(self._plane.store, id_or_prefix)

    async def members(self, id_or_prefix: str, *, limit: int = LARGEST_GROUP) -> list[Member]:
        """In their order; retries of members last."""
        return await group_members(self._plane.store, id_or_prefix, limit=limit)

    async def wait(self, id_or_prefix: str, *, timeout: float | None = None) -> Group:
        """The finished group, however it ended. Raises GroupNotFinished when `timeout` seconds pass."""
        return await await_group(self._plane.store, self._plane.clock, id_or_prefix, timeout)

    async def list(self, *, tenant: str = DEFAULT_TENANT, before: str | None = None, limit: int = 50) -> list[Group]:
        """Newest first. `before` is the id of the last group of the page before."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_LIST:
            raise InvalidInput(f"limit must be a whole number from 1 to {LONGEST_LIST:,}, not {limit!r}.", field="limit")
        tenant_id = await self._plane.directory.tenant(tenant)
        last = None if before is None else await find_group_id(self._plane.store, before)
        return await self._plane.store.groups.list(tenant_id, before=last, limit=limit)

    async def cancel(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> int:
        """How many members were cancelled; raises GroupFinished when none was left."""
        store = self._plane.store
        _, cancelled = await cancel_group(store, self._plane._ids, id_or_prefix, actor=actor, reason=reason)
        return cancelled
