"""`cortex webhooks`: who is told when jobs end, and what could not be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.planes import AsJson, PlaneUrl, existing_plane, me
from cortex_plane.clock import utc_now
from cortex_plane.people.model import OWN_TENANT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from cortex_plane.webhooks.model import DeadLetter, Endpoint


EndpointIdOrPrefix = Annotated[str, Parameter(name="ID", help="The endpoint's id, or the first part of it.")]
DeliveryIdOrPrefix = Annotated[str, Parameter(name="ID", help="The id of the delivery, or the first part of it.")]
TenantName = Annotated[str | None, Parameter(metavar="NAME", help="Only those of this tenant.")]


async def add(
    url: Annotated[
        str, Parameter(name="URL", help="Where messages go: https://…, or operators: email:…, slack:…, telegram:…, discord:…")
    ],
    /,
    *,
    event: Annotated[
        list[str] | None,
        Parameter(
            metavar="NAME",
            help="job.completed, job.failed, job.cancelled, job.held, job.uncertain or job.*; may be given again. Otherwise all; "
            "for operators job.held and job.uncertain.",
        ),
    ] = None,
    tenant: Annotated[str, Parameter(metavar="NAME", help="Whose jobs; otherwise those of tenant default.")] = OWN_TENANT,
    secret: Annotated[str | None, Parameter(metavar="whsec_…", help="What to sign with; otherwise one is made.")] = None,
    description: Annotated[str | None, Parameter(metavar="TEXT", help="What it is for.")] = None,
    allow_private: Annotated[bool, Parameter(help="It may be in a private network, or on this machine.")] = False,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Tell an address, by signed messages, when jobs end.

    Messages are signed as Standard Webhooks says. The secret that is made is shown once: keep it. An address in a channel
    (email:…, slack:…, telegram:…, discord:…) gets a message when a job is held, or has an uncertain call.

    Try:
        cortex webhooks add https://example.com/hooks
        cortex webhooks add https://example.com/hooks --event job.failed --event job.cancelled
        cortex webhooks add email:ops@example.com
        cortex webhooks add slack:C024BE7LH --event job.held
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        added = await plane.webhooks.add(
            url,
            events=tuple(event) if event else None,
            tenant=tenant,
            secret=secret,
            description=description,
            allow_private=allow_private,
            actor=me(),
        )
    if as_json:
        print_json({"endpoint": added.endpoint, "secret": added.secret})
        return 0
    print(f"Added {added.endpoint.id}")
    if added.secret is not None:
        print(f"Its secret, shown only now: {added.secret}")
    next_step("To try it", f"cortex webhooks test {added.endpoint.id}", plane_url)
    return 0


async def list_webhooks(*, tenant: TenantName = None, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List the addresses that are told when jobs end.

    Try:
        cortex webhooks list
        cortex webhooks list --tenant acme --json
    """
    from cortex_plane.cli.output import console, print_json

    async with existing_plane(plane_url) as plane:
        endpoints = await plane.webhooks.list(tenant=tenant)
    if as_json:
        print_json({"endpoints": endpoints})
    elif endpoints:
        console().print(_endpoint_table(endpoints))
    else:
        next_step("There are no webhooks yet. To add one", "cortex webhooks add URL", plane_url, style="")
    return 0


async def remove(endpoint_id: EndpointIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Remove an address. What was still to be delivered to it is dropped.

    Try:
        cortex webhooks remove 0199a8c2
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        removed = await plane.webhooks.remove(endpoint_id, actor=me())
    if as_json:
        print_json({"id": removed, "removed": True})
    else:
        print(f"Removed {removed}")
    return 0


async def enable(endpoint_id: EndpointIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Tell an address again that was disabled.

    Try:
        cortex webhooks enable 0199a8c2
    """
    async with existing_plane(plane_url) as plane:
        endpoint = await plane.webhooks.enable(endpoint_id, actor=me())
    return _say_switched(endpoint, as_json)


async def disable(
    endpoint_id: EndpointIdOrPrefix,
    /,
    *,
    reason: Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is shown in the list.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Tell an address nothing more until it is enabled.

    Try:
        cortex webhooks disable 0199a8c2 --reason "moving house"
    """
    async with existing_plane(plane_url) as plane:
        endpoint = await plane.webhooks.disable(endpoint_id, actor=me(), reason=reason)
    return _say_switched(endpoint, as_json)


async def send_test(endpoint_id: EndpointIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Send an address one message, so that its owner sees that everything works.

    A worker delivers it. The message is sent whatever the address listens to.

    Try:
        cortex webhooks test 0199a8c2
    """
    async with existing_plane(plane_url) as plane:
        delivery = await plane.webhooks.test(endpoint_id, actor=me())
    return _say_submitted(delivery.id, plane_url, as_json)


async def dead_letters(
    *,
    tenant: TenantName = None,
    limit: Annotated[int, Parameter(metavar="N", help="How many, up to 1000; otherwise 20.")] = 20,
    before: Annotated[str | None, Parameter(metavar="ID", help="Only older ones than this: the next page.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List the messages that could not be delivered, newest first.

    Try:
        cortex webhooks dead-letters
        cortex webhooks dead-letters --json
    """
    from cortex_plane.cli.output import console, print_json

    async with existing_plane(plane_url) as plane:
        last = None if before is None else await plane.jobs.find(before)
        letters = await plane.webhooks.dead_letters(tenant=tenant, before=last, limit=limit)
    if as_json:
        print_json({"dead_letters": letters})
    elif letters:
        console().print(_dead_table(letters))
        next_step("\nTo send one again", "cortex webhooks redeliver ID", plane_url)
    else:
        print("Everything was delivered, or is still being tried.")
    return 0


async def redeliver(delivery_id: DeliveryIdOrPrefix, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Send a message again whose delivery failed.

    Try:
        cortex webhooks redeliver 0199a8c2
    """
    async with existing_plane(plane_url) as plane:
        delivery = await plane.webhooks.redeliver(delivery_id, actor=me())
    return _say_submitted(delivery.id, plane_url, as_json)


def _say_switched(endpoint: Endpoint, as_json: bool) -> int:
    from cortex_plane.cli.output import print_json

    if as_json:
        print_json({"endpoint": endpoint})
    else:
        print(f"{'Enabled' if endpoint.enabled else 'Disabled'} {endpoint.id}")
    return 0


def _say_submitted(job_id: str, plane_url: str | None, as_json: bool) -> int:
    from cortex_plane.cli.output import print_json

    if as_json:
        print_json({"id": job_id})
    else:
        print(f"Submitted delivery {job_id}")
        next_step("To follow it", f"cortex jobs watch {job_id}", plane_url)
    return 0


def _endpoint_table(endpoints: Sequence[Endpoint]) -> Any:
    from cortex_plane.cli.output import table, words

    rows: list[list[Text]] = [
        [words(one.id), words(one.tenant), words(", ".join(one.events)), _state(one), words(one.url)] for one in endpoints
    ]
    return table(["ID", "TENANT", "EVENTS", "STATE", "URL"], rows)


def _state(endpoint: Endpoint) -> Text:
    from cortex_plane.cli.output import one_line

    if endpoint.enabled:
        return one_line("enabled", "green")
    return one_line(f"disabled: {endpoint.disabled_reason}" if endpoint.disabled_reason else "disabled", "yellow", limit=60)


def _dead_table(letters: Sequence[DeadLetter]) -> Any:
    from cortex_plane.cli.output import one_line, table, words
    from cortex_plane.durations import ago

    now = utc_now()
    rows = [
        [
            words(one.job_id),
            words(one.event_type),
            words(one.attempts),
            words(ago(one.failed_at, now)),
            one_line(f"{one.url or 'removed'}: {one.error_message}"),
        ]
        for one in letters
    ]
    return table(["ID", "EVENT", "TRIES", "FAILED", "WHERE AND WHY"], rows, right=[2])
