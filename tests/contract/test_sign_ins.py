"""Sign-ins of browsers: what is noted when one is used."""

from __future__ import annotations

import pytest

from cortex_plane.audit.model import AuditEntry
from cortex_plane.ids import new_id
from cortex_plane.people.model import UserId
from tests.contract.support import Raw, Scene

pytestmark = pytest.mark.anyio


async def test_the_use_of_a_sign_in_is_noted_once_a_minute_at_most(scene: Scene, raw: Raw) -> None:
    ada, entry = UserId(new_id()), AuditEntry("TEST", "user_account", "ada", "test")
    await scene.store.accounts.add(ada, "ada", None, None, entry)
    await scene.store.sign_ins.add("0" * 64, ada, 3600.0, entry)

    async def last_used_after(seconds: int) -> object:
        await scene.clock.advance(seconds=seconds)
        assert await scene.store.sign_ins.credential("0" * 64) is not None
        [(last_used_at,)] = await raw("select last_used_at from cortex.login_session")
        return last_used_at

    at_first, soon, later = [await last_used_after(seconds) for seconds in (0, 50, 20)]

    assert soon == at_first
    assert str(later) > str(at_first)
