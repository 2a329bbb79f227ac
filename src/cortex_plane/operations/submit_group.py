"""Submits jobs that belong together: all of them or none, and what is to happen when one fails and when all have ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, get_args

from cortex_plane.core.errors import InvalidInput, did_you_mean
from cortex_plane.core.groups import LARGEST_GROUP, GroupId, GroupMode, NewGroup, OnFailure
from cortex_plane.core.jobs import DEFAULT_TENANT, JobId, NewJob
from cortex_plane.operations.check_budgets import check_budgets
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.names import checked_name
from cortex_plane.operations.submit_jobs import PAYLOAD_LIMIT_BYTES, Submission, checked
from cortex_plane.ports.clock import NewId
from cortex_plane.ports.store import Store

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
    created_by: str | None = None,
    connection: Any = None,
    payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
) -> tuple[GroupId, list[JobId]]:
    """The id of the group and those of its members, in their order."""
    _check_members(members)
    tenant = members[0].tenant
    group = NewGroup(
        id=GroupId(new_id()),
        tenant_id=await directory.tenant(tenant),
        mode=_one_of("mode", mode, get_args(GroupMode)),
        on_failure=_one_of("on_failure", on_failure, get_args(OnFailure)),
        name=None if name is None else checked_name(name),
        created_by=None if created_by is None else checked_name(created_by, "created_by"),
    )
    if callback is not None:
        job = await _checked_callback(directory, new_id, callback, tenant, payload_limit_bytes)
        group = replace(group, callback=job)
    jobs = [
        await _checked_member(directory, new_id, place, member, tenant, payload_limit_bytes)
        for place, member in enumerate(members)
    ]
    # Members take their turns in the order of their ids, whatever the clock did while those were made.
    ids = sorted(job.id for job in jobs)
    jobs = [replace(job, id=job_id, group_id=group.id) for job, job_id in zip(jobs, ids, strict=True)]
    await check_budgets(store, directory, jobs)
    await store.groups.add(group, jobs, new_id, connection)
    return group.id, ids


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
    return await _checked_as("callback", directory, new_id, replace(asked, tenant=tenant), payload_limit_bytes)


async def _checked_as(field: str, directory: Directory, new_id: NewId, asked: Submission, payload_limit_bytes: int) -> NewJob:
    try:
        return await checked(directory, new_id, asked, payload_limit_bytes)
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error}", field=f"{field}.{error.field}" if error.field else field) from None


def _one_of(field: str, value: Choice, known: Sequence[str]) -> Choice:
    if value not in known:
        hint = did_you_mean(str(value), known)
        raise InvalidInput(f"{field} must be one of {', '.join(known)}, not {value!r:.80}.{hint}", field=field)
    return value
