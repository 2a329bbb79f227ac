"""`cortex keys`: what programs sign in with."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.options import AsJson, PlaneUrl, Reason
from cortex_plane.adapters.cli.planes import existing_plane, me

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
    user: Annotated[str | None, Parameter(metavar="NAME", help="The user for whom it acts.")] = None,
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
    from cortex_plane.adapters.cli.output import print_json

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
    from cortex_plane.adapters.cli.output import console, one_line_each, print_json, words
    from cortex_plane.adapters.cli.times import stamp

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
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        revoked = await plane.access.revoke_key(key, actor=me(), reason=reason)
    if as_json:
        print_json(revoked)
    else:
        print(f"Revoked key {revoked.name}, {revoked.prefix}…")
    return 0
