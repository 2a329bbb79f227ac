"""`cortex keys` and `cortex sessions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.planes import AsJson, PlaneUrl, Reason, existing_plane, me
from cortex_plane.people.model import OWN_TENANT

if TYPE_CHECKING:
    from cortex_plane.people.model import Session


Roles = Annotated[
    tuple[str, ...],
    Parameter(name="--role", metavar="ROLE", help="viewer, submitter, operator, approver or admin; may be given again."),
]
OfTenant = Annotated[str | None, Parameter(metavar="NAME", help="Only in this tenant. Otherwise in all of them.")]


async def add(
    name: Annotated[str, Parameter(name="NAME", help="What it is for.")],
    /,
    *,
    role: Roles,
    tenant: OfTenant = None,
    user: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="Whose it is: a person's or a service account's. It never may more than they.",
        ),
    ] = None,
    days: Annotated[float | None, Parameter(metavar="N", help="How long it works. Otherwise for ever.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Make an API key for a program.

    The key is shown once. What is kept is how it begins, to know it by, and its hash.

    Try:
        cortex keys add nightly-import --role submitter --tenant acme --days 90
        cortex keys add me --role admin
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        seconds = None if days is None else days * 86_400
        added = await plane.access.add_key(name, role, tenant=tenant, user=user, ttl_seconds=seconds, actor=me())
    if as_json:
        print_json({"key": added.key, "secret": added.secret})
    else:
        print(f"Added key {added.key.name}, {added.key.id}. It is shown only now:\n{added.secret}")
    return 0


async def list_keys(*, tenant: OfTenant = None, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List API keys, oldest first; those that no longer work, too.

    Try:
        cortex keys list
    """
    from cortex_plane.cli.output import console, one_line_each, print_json, stamp, words

    async with existing_plane(plane_url) as plane:
        keys = await plane.access.keys(tenant=tenant)
    if as_json:
        print_json({"keys": keys})
        return 0
    if not keys:
        print("There are no keys yet. To add one:  cortex keys add NAME --role ROLE")
        return 0
    rows = [
        [
            words(key.prefix),
            words(key.name),
            words(", ".join(key.roles)),
            words(key.tenant or "all"),
            words(stamp(key.last_used_at) if key.last_used_at else "never"),
            words("revoked" if key.revoked_at else stamp(key.expires_at) if key.expires_at else "for ever"),
        ]
        for key in keys
    ]
    console().print(one_line_each(["KEY", "NAME", "ROLES", "TENANT", "LAST USED", "WORKS UNTIL"], rows))
    return 0


async def revoke(
    key: Annotated[str, Parameter(name="KEY", help="Its id, its name, or how it begins.")],
    /,
    *,
    reason: Reason = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Take an API key back. It stops working at once.

    Try:
        cortex keys revoke nightly-import --reason "no longer used"
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        revoked = await plane.access.revoke_key(key, actor=me(), reason=reason)
    if as_json:
        print_json(revoked)
    else:
        print(f"Revoked key {revoked.name}, {revoked.prefix}…")
    return 0


# -- sessions ----------------------------------------------------------------------------------
# `cortex sessions`: the conversations that jobs come out of.


SessionId = Annotated[str, Parameter(name="ID", help="As cortex sessions list has it.")]
OfUser = Annotated[str | None, Parameter(metavar="NAME", help="Whose; otherwise of all.")]
InTenant = Annotated[str, Parameter(metavar="NAME", help="The tenant; otherwise default.")]


async def start(
    user: Annotated[str, Parameter(name="USER", help="Whose conversation it is.")],
    /,
    *,
    agent: Annotated[str | None, Parameter(metavar="NAME", help="The agent that is spoken to.")] = None,
    channel: Annotated[str | None, Parameter(metavar="NAME", help="Where it takes place.")] = None,
    tenant: InTenant = OWN_TENANT,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Start a session: its user is asked where an approval names nobody.

    Try:
        cortex sessions start ada --channel slack
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        session = await plane.people.start_session(user, agent=agent, channel=channel, tenant=tenant)
    if as_json:
        print_json(session)
    else:
        print(f"Started session {session.id}")
        next_step("To submit a job from it", f"cortex jobs submit AGENT --session {session.id}", plane_url)
    return 0


async def list_sessions(
    *,
    user: OfUser = None,
    tenant: InTenant = OWN_TENANT,
    limit: Annotated[int, Parameter(metavar="N", help="How many; otherwise 50.")] = 50,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List sessions, newest first.

    Try:
        cortex sessions list --user ada
    """
    from cortex_plane.cli.output import console, one_line_each, print_json, stamp, words

    async with existing_plane(plane_url) as plane:
        found = await plane.people.sessions(user, tenant=tenant, limit=limit)
    if as_json:
        print_json({"sessions": found})
    elif found:
        rows = [
            [
                words(one.id),
                words(one.user_account_id),
                words(one.channel or ""),
                words(stamp(one.created_at) if one.created_at else ""),
                words(stamp(one.ended_at) if one.ended_at else "goes on"),
            ]
            for one in found
        ]
        console().print(one_line_each(["SESSION", "USER", "CHANNEL", "STARTED", "ENDED"], rows))
    else:
        next_step("There are no sessions. To start one", "cortex sessions start USER", plane_url, style="")
    return 0


async def show(session: SessionId, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show one session.

    Try:
        cortex sessions show 0199a8c2-6f00-7a31-9c4e-2b7d5f1a8e60
    """
    async with existing_plane(plane_url) as plane:
        found = await plane.people.session(session)
    _print(found, as_json=as_json)
    return 0


async def end(session: SessionId, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """End a session: no job is submitted from it any more.

    Try:
        cortex sessions end 0199a8c2-6f00-7a31-9c4e-2b7d5f1a8e60
    """
    async with existing_plane(plane_url) as plane:
        ended = await plane.people.end_session(session)
    if as_json:
        _print(ended, as_json=True)
    else:
        print(f"Session {ended.id} has ended.")
    return 0


def _print(session: Session, *, as_json: bool) -> None:
    from cortex_plane.cli.output import console, facts, print_json, stamp, words

    if as_json:
        print_json(session)
        return
    pairs = [
        ("Session", words(session.id)),
        ("User", words(session.user_account_id)),
        ("Agent", words(session.agent_id) if session.agent_id else None),
        ("Channel", words(session.channel) if session.channel else None),
        ("Started", words(stamp(session.created_at)) if session.created_at else None),
        ("Ended", words(stamp(session.ended_at)) if session.ended_at else None),
    ]
    console().print(facts(pairs))
