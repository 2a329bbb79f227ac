"""`cortex templates`: save, list, show, remove, submit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.planes import AsJson, PlaneUrl, existing_plane, me
from cortex_plane.clock import utc_now
from cortex_plane.jobs.cli_options import OF_TEMPLATE, OVERRIDES, OverrideFlags, TemplateFlags
from cortex_plane.jobs.fields import NEVER_NONE, TEMPLATE_FIELDS, Form
from cortex_plane.people.model import OWN_TENANT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rich.console import RenderableType

    from cortex_plane.templates.model import Template


Name = Annotated[str, Parameter(name="NAME", help="The template's name.")]
Tenant = Annotated[str, Parameter(metavar="NAME", help="Whose template it is; otherwise the default tenant's.")]


async def save(
    name: Name,
    agent: Annotated[str, Parameter(name="AGENT", help="The agent of its jobs.")],
    /,
    *params: Annotated[str, Parameter(help="Their arguments: key=value pairs, one JSON object, or @file.json (@- for stdin).")],
    given: Annotated[TemplateFlags, Parameter(name="*")] = OF_TEMPLATE,
    tenant: Tenant = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Save a job definition under a name, or change it.

    What you leave out is as the agent says, also when the template had it before. Jobs that were
    submitted from it earlier do not change.

    Try:
        cortex templates save nightly report kind=full --queue reports --max-retries 5
    """
    from cortex_plane.cli.output import print_json, with_payload

    options: Any = {**given.options(), "tenant": tenant}
    async with existing_plane(plane_url) as plane:
        saved = await with_payload(params, lambda payload: plane.templates.save(name, agent, payload, **options))
    if as_json:
        print_json(saved)
    else:
        print(f"Saved {saved.name}, version {saved.version}")
        next_step("To submit a job from it", f"cortex templates submit {saved.name}", plane_url)
    return 0


async def list_templates(*, tenant: Tenant = OWN_TENANT, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List templates by name.

    Try:
        cortex templates list
    """
    from cortex_plane.cli.output import console, document, one_line_each, print_json, words
    from cortex_plane.durations import rough

    async with existing_plane(plane_url) as plane:
        found = await plane.templates.list(tenant=tenant)
    if as_json:
        print_json({"templates": found})
    elif found:
        now = utc_now()
        rows = [
            [
                words(one.name),
                words(one.version),
                words(one.job_type),
                words(one.queue or "-"),
                words(rough(now - one.updated_at)),
                document(one.params),
            ]
            for one in found
        ]
        console().print(one_line_each(["NAME", "VERSION", "AGENT", "QUEUE", "CHANGED", "PARAMS"], rows, right=[1, 4]))
    else:
        next_step("There are no templates yet. To save one", "cortex templates save NAME AGENT key=value", plane_url, style="")
    return 0


async def show(name: Name, /, *, tenant: Tenant = OWN_TENANT, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show one template.

    Try:
        cortex templates show nightly
    """
    from cortex_plane.cli.output import console, facts, heading, indented, print_json

    async with existing_plane(plane_url) as plane:
        found = await plane.templates.get(name, tenant=tenant)
    if as_json:
        print_json(found)
        return 0
    say = console()
    say.print(heading(f"Template {found.name}"))
    say.print(indented(facts(_facts(found, utc_now()))))
    return 0


def _facts(template: Template, now: datetime) -> Iterator[tuple[str, RenderableType | None]]:
    from cortex_plane.cli.output import document, stamp, words
    from cortex_plane.durations import ago

    yield "agent", words(template.job_type)
    yield "params", document(template.params)
    yield from ((label, words(text)) for label, text in _options(template))
    yield "version", words(template.version)
    yield "by", words(template.created_by) if template.created_by else None
    yield "created", f"{stamp(template.created_at)}, {ago(template.created_at, now)}"
    yield "changed", f"{stamp(template.updated_at)}, {ago(template.updated_at, now)}" if template.version > 1 else None
    yield "changed by", words(template.changed_by) if template.version > 1 and template.changed_by else None


def _options(template: Template) -> Iterator[tuple[str, str]]:
    """Those that it sets, by the names of their flags."""
    for field in TEMPLATE_FIELDS:
        value = getattr(template, field.in_template)
        if value is not None and (value or field.name not in NEVER_NONE):
            yield field.name.replace("_", " "), _shown(field.form, value)


def _shown(form: Form, value: Any) -> str:
    from cortex_plane.jobs.cli_views import policy_text

    match form:
        case "texts":
            return ", ".join(value)
        case "duration":
            return f"{value:g} s"
        case "duration or time":
            return f"{value:g} s after its submission"
        case "policy":
            return policy_text(value)
        case _:
            return str(value)


async def remove(name: Name, /, *, tenant: Tenant = OWN_TENANT, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Remove a template. Its jobs stay.

    Try:
        cortex templates remove nightly
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        await plane.templates.remove(name, tenant=tenant, actor=me())
    if as_json:
        print_json({"name": name, "removed": True})
    else:
        print(f"Removed {name}")
    return 0


async def submit(
    name: Name,
    /,
    *overrides: Annotated[str, Parameter(help="Arguments that replace the template's: key=value pairs, JSON, or @file.json.")],
    given: Annotated[OverrideFlags, Parameter(name="*")] = OVERRIDES,
    tenant: Tenant = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Submit a job from a template.

    Try:
        cortex templates submit nightly
        cortex templates submit nightly kind=short --priority 5
    """
    from cortex_plane.cli.output import print_json, with_payload

    async with existing_plane(plane_url) as plane:
        submit = partial(plane.templates.submit, name, tenant=tenant, **given.options())
        handle = await with_payload(overrides, submit)
        job = await handle.job()
    if as_json:
        print_json({"id": job.id, "status": job.status, "agent": job.job_type, "queue": job.queue, "template": name})
    else:
        print(f"Submitted {job.job_type} as {job.id}")
        next_step("To follow it", f"cortex jobs watch {job.id}", plane_url)
    return 0
