"""`plane.templates`: save, get, list, remove, submit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from cortex_plane.costs.service import check_budgets
from cortex_plane.errors import InvalidInput
from cortex_plane.jobs.fields import (
    PAYLOAD_LIMIT_BYTES,
    Submission,
    SubmitOptions,
    TemplateOptions,
    check_submit_options,
    check_template_options,
    refuse_timeout,
    template_json,
    template_options,
)
from cortex_plane.jobs.handle import JobHandle
from cortex_plane.jobs.model import DEFAULT_TENANT, JobId, NewJob, TenantId
from cortex_plane.jobs.submission import checked
from cortex_plane.json import dumps
from cortex_plane.people.model import checked_noun_name
from cortex_plane.people.sessions import check_sessions
from cortex_plane.templates.model import NewTemplate, Template, TemplateId, TemplateNotFound

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.ids import NewId
    from cortex_plane.plane import Plane
    from cortex_plane.stores import Store


async def find_template(store: Store, directory: Directory, name: str, *, tenant: str = DEFAULT_TENANT) -> Template:
    tenant_id = await directory.tenant(tenant)
    found = await store.templates.get(tenant_id, name)
    if found is None:
        raise await not_found(store, tenant_id, name)
    return found


async def not_found(store: Store, tenant_id: TenantId, name: str) -> TemplateNotFound:
    return TemplateNotFound(name, [template.name for template in await store.templates.list(tenant_id)])


# -- save template -----------------------------------------------------------------------------
# Saves a job definition under a name. What would be refused when a job is submitted is refused here already.


async def save_template(
    store: Store,
    directory: Directory,
    new_id: NewId,
    name: str,
    asked: Submission,
    *,
    payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
) -> Template:
    """`asked` is what its jobs will be; `asked.created_by` is who saves it."""
    job = await checked(directory, new_id, asked, payload_limit_bytes, later=None)
    template = NewTemplate(
        id=TemplateId(new_id()),
        tenant_id=job.tenant_id,
        name=checked_noun_name(name),
        job_type=job.job_type,
        params=job.payload,
        options=dumps(template_json(asked)),
        created_by=job.created_by,
    )
    return await store.templates.put(template, asked.created_by)


# -- remove template ---------------------------------------------------------------------------
# Removes a template. Jobs that were made from it keep everything that it said.


async def remove_template(
    store: Store, directory: Directory, name: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None
) -> None:
    tenant_id = await directory.tenant(tenant)
    if not await store.templates.remove(tenant_id, name, actor):
        raise await not_found(store, tenant_id, name)


# -- submit from template ----------------------------------------------------------------------
# Submits a job that a template describes. The job takes a copy: what becomes of the template later does not matter to it.


async def submit_from_template(
    store: Store,
    directory: Directory,
    new_id: NewId,
    name: str,
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    connection: Any = None,
    payload_limit_bytes: int = PAYLOAD_LIMIT_BYTES,
    trace: str | None = None,
) -> JobId:
    """`overrides` replace keys of the template's params; `options` are fields of a Submission, and win over the template."""
    asked = dict(options or {})
    template = await find_template(store, directory, name, tenant=asked.pop("tenant", DEFAULT_TENANT))
    submission = submission_from(template, overrides, asked)
    job = await checked(directory, new_id, submission, payload_limit_bytes)
    job = replace(job_of(template, job), tenant_id=template.tenant_id, trace_id=trace)
    await check_sessions(store, [job])
    await check_budgets(store, directory, [job])
    [job_id] = await store.jobs.submit([job], connection)
    return job_id


def job_of(template: Template, job: NewJob) -> NewJob:
    """Whoever last changed the template stands behind its jobs, as the editor of a schedule does."""
    behind = () if template.changed_by in (None, job.created_by) else (template.changed_by,)
    return replace(job, template_id=template.id, submitters=(*job.submitters, *behind))


def submission_from(template: Template, overrides: Mapping[str, Any] | None, options: Mapping[str, Any]) -> Submission:
    """A pure overlay; a caller's retry policy also says how often."""
    if overrides is not None and not isinstance(overrides, Mapping):
        raise InvalidInput(
            f"overrides must be a dict of the agent's arguments by name, not a {type(overrides).__name__}.", field="overrides"
        )
    refuse_timeout(options)
    own = template_options(template)
    if "retry" in options:
        own["max_retries"] = None
    return Submission(template.job_type, {**template.params, **(overrides or {})}, **{**own, **options})


# -- templates ---------------------------------------------------------------------------------
# `plane.templates`: job definitions that are stored once and submitted often.


class TemplateService:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def save(
        self,
        name: str,
        agent: str,
        params: Mapping[str, Any] | None = None,
        **options: Unpack[TemplateOptions],
    ) -> Template:
        """Under a name that is taken, the template is changed and its version counted up.

        Args:
            name: The name of the template in its tenant.
            agent: The agent of its jobs.
            params: The arguments of its jobs, by name.
            **options: See `Submission`; those of a single job are given when it is submitted.

        Raises:
            UnknownAgent: No program has registered an agent of that name.
            InvalidInput: An argument or an option is wrong; `field` names it.
        """
        check_template_options("templates.save", options)
        asked = Submission(agent, params, **options)
        limit = self._plane.settings.payload_limit_bytes
        return await save_template(
            self._plane.store, self._plane.directory, self._plane._ids, name, asked, payload_limit_bytes=limit
        )

    async def get(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Template:
        return await find_template(self._plane.store, self._plane.directory, name, tenant=tenant)

    async def list(self, *, tenant: str = DEFAULT_TENANT) -> list[Template]:
        """By name."""
        return await self._plane.store.templates.list(await self._plane.directory.tenant(tenant))

    async def remove(self, name: str, *, tenant: str = DEFAULT_TENANT, actor: str | None = None) -> None:
        """Its jobs keep everything that it said."""
        await remove_template(self._plane.store, self._plane.directory, name, tenant=tenant, actor=actor)

    async def submit(
        self, name: str, overrides: Mapping[str, Any] | None = None, **options: Unpack[SubmitOptions]
    ) -> JobHandle[Any]:
        """A job as the template says now; `overrides` replace keys of its params, `options` what it says about the rest."""
        check_submit_options("templates.submit", options)
        asked: dict[str, Any] = dict(options)
        connection = asked.pop("connection", None)
        with self._plane.submitting([f"template:{name}"]) as trace:
            job_id = await submit_from_template(
                self._plane.store,
                self._plane.directory,
                self._plane._ids,
                name,
                overrides,
                asked,
                connection=connection,
                payload_limit_bytes=self._plane.settings.payload_limit_bytes,
                trace=trace,
            )
        return JobHandle(self._plane.jobs, job_id)
