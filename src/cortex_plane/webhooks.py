"""Webhooks as a program uses them: `plane.webhooks.add("https://…")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.jobs import DEFAULT_TENANT, JobId
from cortex_plane.core.webhooks import AddedEndpoint, DeadLetter, DeadLetterPage, Endpoint, EndpointId
from cortex_plane.handles import JobHandle
from cortex_plane.operations.add_endpoint import EndpointWish, add_endpoint
from cortex_plane.operations.directory import Directory
from cortex_plane.operations.redeliver_webhook import redeliver_webhook
from cortex_plane.operations.remove_endpoint import remove_endpoint
from cortex_plane.operations.send_test_event import send_test_event
from cortex_plane.operations.switch_endpoint import disable_endpoint, enable_endpoint

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

LONGEST_LIST = 1_000


class Webhooks:
    """Who is told when jobs end. Messages are signed as Standard Webhooks says; ids may be given by their first part."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def add(
        self,
        url: str,
        *,
        events: Sequence[str] = ("*",),
        tenant: str = DEFAULT_TENANT,
        secret: str | None = None,
        description: str | None = None,
        allow_private: bool = False,
        actor: str | None = None,
    ) -> AddedEndpoint:
        """Events: job.completed, job.failed, job.cancelled, job.* or *. Without a secret one is made, and shown only here."""
        store = await self._plane.store
        wish = EndpointWish(url, events, tenant, secret, description, allow_private, actor)
        return await add_endpoint(store, Directory(store), self._plane._ids, wish)

    async def remove(self, id_or_prefix: str, *, actor: str | None = None) -> EndpointId:
        return await remove_endpoint(await self._plane.store, id_or_prefix, actor=actor)

    async def enable(self, id_or_prefix: str, *, actor: str | None = None) -> Endpoint:
        return await enable_endpoint(await self._plane.store, id_or_prefix, actor=actor)

    async def disable(self, id_or_prefix: str, *, actor: str | None = None, reason: str | None = None) -> Endpoint:
        return await disable_endpoint(await self._plane.store, id_or_prefix, actor=actor, reason=reason)

    async def test(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        """Sends one message, whatever the endpoint listens to. The handle is that of the delivery."""
        store, plane = await self._plane.store, self._plane
        job_id = await send_test_event(store, Directory(store), plane.clock, plane._ids, id_or_prefix, actor=actor)
        return JobHandle(plane, job_id)

    async def dead_letters(self, *, tenant: str | None = None, before: str | None = None, limit: int = 50) -> list[DeadLetter]:
        """What could not be delivered and was not sent again, newest first; however long it takes to find so many."""
        page = await self.dead_letter_page(tenant=tenant, before=before, limit=limit)
        found = page.letters
        while page.next_before is not None and len(found) < limit:
            page = await self.dead_letter_page(tenant=tenant, before=page.next_before, limit=limit - len(found))
            found += page.letters
        return found

    async def dead_letter_page(self, *, tenant: str | None = None, before: str | None = None, limit: int = 50) -> DeadLetterPage:
        """The same in steps that never take long: a page may be short and still have a next one, at its `next_before`."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_LIST:
            raise InvalidInput(f"limit must be a whole number from 1 to {LONGEST_LIST:,}, not {limit!r:.40}.", field="limit")
        store = await self._plane.store
        tenant_id = None if tenant is None else await Directory(store).tenant(tenant)
        last = None if before is None else JobId(before)
        return await store.webhooks.dead_letters(tenant_id, before=last, limit=limit)

    async def redeliver(self, id_or_prefix: str, *, actor: str | None = None) -> JobHandle[Any]:
        """Sends the message of an ended delivery again, under the same event id."""
        return JobHandle(
            self._plane, await redeliver_webhook(await self._plane.store, self._plane._ids, id_or_prefix, actor=actor)
        )

    async def list(self, *, tenant: str | None = None) -> list[Endpoint]:
        store = await self._plane.store
        return await store.webhooks.list(None if tenant is None else await Directory(store).tenant(tenant))
