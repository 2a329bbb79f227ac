"""`cortex users`: who there is, where they are reached, and in which groups they are."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.hints import next_step
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl, Reason
from cortex_plane.adapters.cli.planes import existing_plane, me
from cortex_plane.core.tenants import OWN_TENANT

UserName = Annotated[str, Parameter(name="NAME", help="The user's name.")]
GroupName = Annotated[str, Parameter(name="GROUP", help="The name of the group.")]
InTenant = Annotated[str, Parameter(metavar="NAME", help="The tenant of the group; otherwise default.")]


async def list_users(
    *,
    after: Annotated[str, Parameter(metavar="NAME", help="Only names after this one: the next page.")] = "",
    limit: Annotated[int, Parameter(metavar="N", help="How many, up to 1000; otherwise 100.")] = 100,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """List users, by name.

    Try:
        cortex users list
    """
    from cortex_plane.adapters.cli.output import console, one_line_each, print_json, words

    async with existing_plane(plane_url) as plane:
        users = await plane.people.list(after=after, limit=limit)
    if as_json:
        print_json({"users": users})
    elif users:
        rows = [
            [
                words(user.name),
                words(user.display_name or ""),
                words("disabled" if user.disabled_at else "enabled"),
                words(user.email or ""),
            ]
            for user in users
        ]
        console().print(one_line_each(["NAME", "SHOWN AS", "STATE", "E-MAIL"], rows))
    else:
        next_step("There are no users yet. To add one", "cortex users add NAME", plane_url, style="")
    return 0


async def show(name: UserName, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show one user: roles, and where they are reached.

    Try:
        cortex users show ada
    """
    from cortex_plane.adapters.cli.output import console, facts, heading, indented, print_json, table, words
    from cortex_plane.adapters.cli.times import stamp

    async with existing_plane(plane_url) as plane:
        account = await plane.access.user(name)
        channels = await plane.people.channels(name)
    if as_json:
        print_json({"user": account, "channels": channels})
        return 0
    roles = [f"{given.role} in {given.tenant or 'all tenants'}" for given in account.given]
    pairs = [
        ("User", words(account.name)),
        ("Id", words(account.id)),
        ("Shown as", words(account.display_name) if account.display_name else None),
        ("E-mail", words(account.email) if account.email else None),
        ("Added", words(stamp(account.created_at))),
        ("Disabled", words(stamp(account.disabled_at), "red") if account.disabled_at else None),
        ("Roles", words(", ".join(roles) or "none")),
    ]
    console().print(facts(pairs))
    if channels:
        rows = [[words(one.id), words(one.channel_type), words(one.channel_user_id)] for one in channels]
        console().print(heading("\nReached at"))
        console().print(indented(table(["ID", "CHANNEL", "ADDRESS"], rows)))
    return 0


async def disable(name: UserName, /, *, reason: Reason = None, plane_url: PlaneUrl = None) -> int:
    """Disable a user: from now on they may do nothing.

    Try:
        cortex users disable ada --reason "on leave"
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.people.disable(name, actor=me(), reason=reason)
    print(f"{name} is disabled." if changed else f"{name} was disabled already.")
    return 0


async def enable(name: UserName, /, *, reason: Reason = None, plane_url: PlaneUrl = None) -> int:
    """Enable a user who was disabled.

    Try:
        cortex users enable ada
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.people.enable(name, actor=me(), reason=reason)
    print(f"{name} is enabled." if changed else f"{name} was enabled already.")
    return 0


async def link(
    name: UserName,
    channel: Annotated[str, Parameter(name="CHANNEL", help="telegram, discord, slack, email or webhook.")],
    address: Annotated[str, Parameter(name="ADDRESS", help="What they are known by there: a number, an id, an address.")],
    /,
    *,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Link an address to a user, so that requests reach them there.

    Try:
        cortex users link ada telegram 123456789
        cortex users link ada email ada@example.com
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        linked = await plane.people.link(name, channel, address, actor=me())
    if as_json:
        print_json(linked)
    else:
        print(f"{name} is reached by {linked.channel_type}: {linked.id}")
    return 0


async def unlink(
    name: UserName,
    channel_id: Annotated[str, Parameter(name="ID", help="As cortex users show has it.")],
    /,
    *,
    plane_url: PlaneUrl = None,
) -> int:
    """Unlink an address from a user.

    Try:
        cortex users unlink ada 0199a8c2-6f00-7a31-9c4e-2b7d5f1a8e60
    """
    async with existing_plane(plane_url) as plane:
        await plane.people.unlink(name, channel_id, actor=me())
    print(f"{name} is not reached there any more.")
    return 0


async def add_group(
    group: GroupName, /, *, tenant: InTenant = OWN_TENANT, plane_url: PlaneUrl = None, as_json: AsJson = False
) -> int:
    """Add a group of people who may be asked together.

    Agents name it as group:NAME.

    Try:
        cortex users group release-managers
    """
    from cortex_plane.adapters.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        added = await plane.people.add_group(group, tenant=tenant, actor=me())
    if as_json:
        print_json(added)
    else:
        print(f"Added group {added.name}, {added.id}")
        next_step("To put somebody in", f"cortex users join NAME {added.name}", plane_url)
    return 0


async def list_groups(*, tenant: InTenant = OWN_TENANT, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List groups of people, with who is in them.

    Try:
        cortex users groups
    """
    from cortex_plane.adapters.cli.output import console, print_json, table, words

    async with existing_plane(plane_url) as plane:
        groups = await plane.people.groups(tenant=tenant)
    if as_json:
        print_json({"groups": [{"group": group, "members": members} for group, members in groups]})
    elif groups:
        rows = [[words(group.name), words(", ".join(user.name for user in members) or "nobody")] for group, members in groups]
        console().print(table(["GROUP", "WHO"], rows))
    else:
        next_step("There are no groups yet. To add one", "cortex users group NAME", plane_url, style="")
    return 0


async def join(name: UserName, group: GroupName, /, *, tenant: InTenant = OWN_TENANT, plane_url: PlaneUrl = None) -> int:
    """Put a user into a group.

    Try:
        cortex users join ada release-managers
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.people.join(group, name, tenant=tenant, actor=me())
    print(f"{name} is in {group}." if changed else f"{name} was in {group} already.")
    return 0


async def leave(name: UserName, group: GroupName, /, *, tenant: InTenant = OWN_TENANT, plane_url: PlaneUrl = None) -> int:
    """Take a user out of a group.

    Try:
        cortex users leave ada release-managers
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.people.leave(group, name, tenant=tenant, actor=me())
    print(f"{name} is not in {group} any more." if changed else f"{name} was not in {group}.")
    return 0
