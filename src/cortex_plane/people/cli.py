"""`cortex users` and `cortex tenants erase`: people, roles, groups, addresses."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from cortex_plane.cli.hints import next_step
from cortex_plane.cli.planes import AsJson, PlaneUrl, Reason, existing_plane, me, plane_for
from cortex_plane.errors import InvalidInput
from cortex_plane.people.cli_access import OfTenant, Roles
from cortex_plane.people.model import BUILT_IN_CHANNELS, OWN_TENANT

PersonName = Annotated[str, Parameter(name="NAME", help="The user's name.")]
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
    from cortex_plane.cli.output import console, one_line_each, print_json, words

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


async def show(name: PersonName, /, *, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """Show one user: roles, and where they are reached.

    Try:
        cortex users show ada
    """
    from cortex_plane.cli.output import console, facts, heading, indented, print_json, stamp, table, words

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
        ("Kind", words("service account") if account.owner_id else None),
        ("Owner", words(account.owner_id) if account.owner_id else None),
    ]
    console().print(facts(pairs))
    if channels:
        rows = [[words(one.id), words(one.channel_type), words(one.channel_user_id)] for one in channels]
        console().print(heading("\nReached at"))
        console().print(indented(table(["ID", "CHANNEL", "ADDRESS"], rows)))
    return 0


async def erase(
    name: PersonName,
    /,
    *,
    yes: Annotated[bool, Parameter(name="--yes", negative="", help="Yes, erase: it cannot be undone.")] = False,
    reason: Annotated[str | None, Parameter(metavar="TEXT", help="Why; it is kept in the audit log.")] = None,
    plane_url: PlaneUrl = None,
) -> int:
    """Remove what is stored about a user; the audit log keeps a pseudonym.

    Try:
        cortex users erase ada --yes
    """
    if not yes:
        raise InvalidInput(f"To erase {name} for good, say so: cortex users erase {name} --yes", field="yes")
    async with existing_plane(plane_url) as plane:
        erased = await plane.people.erase(name, actor=me(), reason=reason)
    gone = f"{erased.jobs:,} jobs, and words of {erased.audit_entries:,} audit entries"
    print(f"Erased: {gone}. What is left is called {erased.pseudonym}.")
    return 0


async def disable(name: PersonName, /, *, reason: Reason = None, plane_url: PlaneUrl = None) -> int:
    """Disable a user: from now on they may do nothing.

    Their keys, sign-ins, sessions, event streams and the links that were sent to them end, and do not come back.

    Try:
        cortex users disable ada --reason "on leave"
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.people.disable(name, actor=me(), reason=reason)
    print(f"{name} is disabled." if changed else f"{name} was disabled already.")
    return 0


async def enable(name: PersonName, /, *, reason: Reason = None, plane_url: PlaneUrl = None) -> int:
    """Enable a user who was disabled.

    Try:
        cortex users enable ada
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.people.enable(name, actor=me(), reason=reason)
    print(f"{name} is enabled." if changed else f"{name} was enabled already.")
    return 0


async def link(
    name: PersonName,
    channel: Annotated[str, Parameter(name="CHANNEL", help="telegram, discord, slack, email, webhook, or one of the app's own.")],
    address: Annotated[str, Parameter(name="ADDRESS", help="What they are known by there: a number, an id, an address.")],
    /,
    *,
    app: Annotated[str | None, Parameter(metavar="APP", help="The app whose own channel it is; otherwise CORTEX_APP.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Link an address to a user, so that requests reach them there.

    Try:
        cortex users link ada telegram 123456789
        cortex users link ada email ada@example.com
        cortex users link ada teams 19:abc --app app.py
    """
    from cortex_plane.cli.output import print_json

    opened = existing_plane(plane_url) if channel in BUILT_IN_CHANNELS else plane_for(app, plane_url)
    async with opened as plane:
        linked = await plane.people.link(name, channel, address, actor=me())
    if as_json:
        print_json(linked)
    else:
        print(f"{name} is reached by {linked.channel_type}: {linked.id}")
    return 0


async def unlink(
    name: PersonName,
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
        cortex user-groups add release-managers
    """
    from cortex_plane.cli.output import print_json

    async with existing_plane(plane_url) as plane:
        added = await plane.people.add_group(group, tenant=tenant, actor=me())
    if as_json:
        print_json(added)
    else:
        print(f"Added group {added.name}, {added.id}")
        next_step("To put somebody in", f"cortex user-groups join NAME {added.name}", plane_url)
    return 0


async def list_groups(*, tenant: InTenant = OWN_TENANT, plane_url: PlaneUrl = None, as_json: AsJson = False) -> int:
    """List groups of people, with who is in them.

    Try:
        cortex user-groups list
    """
    from cortex_plane.cli.output import console, print_json, table, words

    async with existing_plane(plane_url) as plane:
        groups = await plane.people.groups(tenant=tenant)
    if as_json:
        print_json({"groups": [{"group": group, "members": members} for group, members in groups]})
    elif groups:
        rows = [[words(group.name), words(", ".join(user.name for user in members) or "nobody")] for group, members in groups]
        console().print(table(["GROUP", "WHO"], rows))
    else:
        next_step("There are no groups yet. To add one", "cortex user-groups add NAME", plane_url, style="")
    return 0


async def join(name: PersonName, group: GroupName, /, *, tenant: InTenant = OWN_TENANT, plane_url: PlaneUrl = None) -> int:
    """Put a user into a group.

    Try:
        cortex user-groups join ada release-managers
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.people.join(group, name, tenant=tenant, actor=me())
    print(f"{name} is in {group}." if changed else f"{name} was in {group} already.")
    return 0


async def leave(name: PersonName, group: GroupName, /, *, tenant: InTenant = OWN_TENANT, plane_url: PlaneUrl = None) -> int:
    """Take a user out of a group.

    Try:
        cortex user-groups leave ada release-managers
    """
    async with existing_plane(plane_url) as plane:
        changed = await plane.people.leave(group, name, tenant=tenant, actor=me())
    print(f"{name} is not in {group} any more." if changed else f"{name} was not in {group}.")
    return 0


# -- users -------------------------------------------------------------------------------------
# `cortex users`: people who sign in, their passwords and roles.


UserName = Annotated[str, Parameter(name="NAME", help="What they sign in with.")]
RoleName = Annotated[str, Parameter(name="ROLE", help="viewer, submitter, operator, approver or admin.")]


async def add(
    name: UserName,
    /,
    *,
    role: Roles = (),
    tenant: OfTenant = None,
    email: Annotated[str | None, Parameter(metavar="ADDRESS", help="Where mail reaches them.")] = None,
    shown_as: Annotated[str | None, Parameter(metavar="NAME", help="What others are shown of them.")] = None,
    no_password: Annotated[bool, Parameter(help="They do not sign in: they decide by their messages.")] = False,
    owner: Annotated[str | None, Parameter(metavar="ADMIN", help="Makes it a service account, which this admin owns.")] = None,
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Add a user who signs in, decides, or is asked.

    The password is asked for, or read from standard input. A service account has none: programs act as it by its keys.

    Try:
        cortex users add ada --role admin --email ada@example.com
        cortex users add grace --role approver --no-password
        cortex users add ci --role submitter --owner ada
    """
    from cortex_plane.cli.output import print_json
    from cortex_plane.people.roles import check_password, check_roles

    roles = check_roles(role) if role else ()
    secret = None if no_password or owner else check_password(_password(plane_url))
    async with existing_plane(plane_url) as plane:
        await plane.people.add(name, display_name=shown_as, email=email, owner=owner, actor=me())
        if secret is not None:
            await plane.access.set_password(name, secret, actor=me())
        account = await plane.access.user(name)
        for one in roles:
            account = await plane.access.give_role(name, one, tenant=tenant, actor=me())
    if as_json:
        print_json(account)
    else:
        print(f"Added user {account.name}, {account.id}")
    return 0


async def set_password(name: UserName, /, *, plane_url: PlaneUrl = None) -> int:
    """Set a user's password, and sign them out everywhere.

    Try:
        cortex users password ada
    """
    password = _password(plane_url)
    async with existing_plane(plane_url) as plane:
        await plane.access.set_password(name, password, actor=me())
    print(f"{name} has a new password, and is signed out everywhere.")
    return 0


async def owner(
    name: UserName,
    admin: Annotated[str, Parameter(name="ADMIN", help="Who owns it from now on.")],
    /,
    *,
    plane_url: PlaneUrl = None,
) -> int:
    """Give a service account to another admin.

    Try:
        cortex users owner ci grace
    """
    async with existing_plane(plane_url) as plane:
        await plane.people.change_owner(name, admin, actor=me())
    print(f"{name} is owned by {admin}.")
    return 0


async def add_role(name: UserName, role: RoleName, /, *, tenant: OfTenant = None, plane_url: PlaneUrl = None) -> int:
    """Give a user a role.

    Try:
        cortex users add-role ada operator --tenant acme
    """
    async with existing_plane(plane_url) as plane:
        await plane.access.give_role(name, role, tenant=tenant, actor=me())
    print(f"{name} is {role} {_where(tenant)}.")
    return 0


async def remove_role(name: UserName, role: RoleName, /, *, tenant: OfTenant = None, plane_url: PlaneUrl = None) -> int:
    """Take a role from a user.

    Try:
        cortex users remove-role ada operator --tenant acme
    """
    async with existing_plane(plane_url) as plane:
        await plane.access.take_role(name, role, tenant=tenant, actor=me())
    print(f"{name} is not {role} {_where(tenant)} any more.")
    return 0


def _where(tenant: str | None) -> str:
    return f"in {tenant}" if tenant else "in all tenants"


def _password(plane_url: str | None) -> str:
    """Never as a word of the command: those are seen by others on the machine, and kept by the shell.

    A server hashes the password itself. Otherwise this program does, and must be able to before it asks.
    """
    from cortex_plane.cli.planes import goes_to_a_server
    from cortex_plane.extras import require_extra

    if not goes_to_a_server(plane_url):
        require_extra("server", "A password")
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    from getpass import getpass

    return getpass("Password: ")
