"""Erasing over HTTP and by the command: for admins of all tenants, and not by accident."""

from __future__ import annotations

import pytest

from cortex_plane.errors import InvalidInput
from cortex_plane.people import cli as people
from cortex_plane.people import cli_tenants as tenants
from tests.http.conftest import Api

pytestmark = pytest.mark.anyio


async def test_only_an_admin_of_all_tenants_erases(api: Api) -> None:
    await api.tenant("acme")
    await api.plane.access.add_user("ada")
    await api.plane.access.give_role("ada", "viewer")
    of_one, of_all = await api.client("admin"), await api.client("admin", tenant=None)

    for path in ("/users/ada/erase", "/tenants/acme/erase"):
        assert (await of_one.post(path, json={})).status_code == 403
        answer = await of_all.post(path, json={"reason": "asked for"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["pseudonym"].startswith("erased-")
        assert (await of_all.post(path, json={})).status_code == 404


async def test_the_commands_ask_to_be_told_twice() -> None:
    for command, noun in ((people.erase, "users"), (tenants.erase, "tenants")):
        with pytest.raises(InvalidInput, match=f"cortex {noun} erase x --yes"):
            await command("x")
