"""Somebody who is signed in, without the page on which one does so."""

from __future__ import annotations

from playwright.async_api import BrowserContext

from cortex_plane.http.auth import COOKIE
from cortex_plane.people.login import open_sign_in
from cortex_plane.plane import Plane


async def signed_in(context: BrowserContext, plane: Plane, root: str, name: str) -> None:
    opened = await open_sign_in(plane.store, await plane.access.user(name))
    await context.add_cookies([{"name": COOKIE, "value": opened.token, "url": root}])
