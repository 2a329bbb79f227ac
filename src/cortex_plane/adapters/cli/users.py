"""`cortex users`: people who sign in, their passwords and roles."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from cortex_plane.adapters.cli.keys import OfTenant, Roles
from cortex_plane.adapters.cli.options import AsJson, PlaneUrl
from cortex_plane.adapters.cli.planes import existing_plane, me

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
    plane_url: PlaneUrl = None,
    as_json: AsJson = False,
) -> int:
    """Add a user who signs in, decides, or is asked.

    The password is asked for, or read from standard input.

    Try:
        cortex users add ada --role admin --email ada@example.com
        cortex users add grace --role approver --no-password
    """
    from cortex_plane.adapters.cli.output import print_json
    from cortex_plane.core.access import check_password, check_roles

    roles = check_roles(role) if role else ()
    secret = None if no_password else check_password(_password())
    async with existing_plane(plane_url) as plane:
        await plane.people.add(name, display_name=shown_as, email=email, actor=me())
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
    password = _password()
    async with existing_plane(plane_url) as plane:
        await plane.access.set_password(name, password, actor=me())
    print(f"{name} has a new password, and is signed out everywhere.")
    return 0


async def grant(name: UserName, role: RoleName, /, *, tenant: OfTenant = None, plane_url: PlaneUrl = None) -> int:
    """Give a user a role.

    Try:
        cortex users grant ada operator --tenant acme
    """
    async with existing_plane(plane_url) as plane:
        await plane.access.give_role(name, role, tenant=tenant, actor=me())
    print(f"{name} is {role} {_where(tenant)}.")
    return 0


async def withdraw(name: UserName, role: RoleName, /, *, tenant: OfTenant = None, plane_url: PlaneUrl = None) -> int:
    """Take a role from a user.

    Try:
        cortex users withdraw ada operator --tenant acme
    """
    async with existing_plane(plane_url) as plane:
        await plane.access.take_role(name, role, tenant=tenant, actor=me())
    print(f"{name} is not {role} {_where(tenant)} any more.")
    return 0


def _where(tenant: str | None) -> str:
    return f"in {tenant}" if tenant else "in all tenants"


def _password() -> str:
    """Never as a word of the command: those are seen by others on the machine, and kept by the shell."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    from getpass import getpass

    return getpass("Password: ")
