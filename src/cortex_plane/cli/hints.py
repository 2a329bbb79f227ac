"""Hints with the next command to type, for the same database or server, without passwords."""

from __future__ import annotations

import re
import shlex

from cortex_plane.server_urls import is_server

PASSWORD = re.compile(r"(?<=://)([^/?#@:\s]*):(?!password@)[^/?#\s]*@|(?<=[?&])(password|sslpassword)=[^&\s'\"]*")


def next_step(lead: str, command: str, plane_url: str | None = None, *, style: str = "dim", stderr: bool = False) -> None:
    """Prints a hint: `lead:  command`. `plane_url` is the option that this command was given, and is repeated in the hint."""
    from cortex_plane.cli.output import console, words

    place = "" if plane_url is None else f" {_option(plane_url)} {shlex.quote(without_password(plane_url))}"
    console(stderr=stderr).print(words(f"{lead}:  {command}{place}", style), soft_wrap=True)


def _option(url: str) -> str:
    return "--server" if is_server(url) else "--database-url"


def without_password(text: str) -> str:
    """Masks the passwords of database URLs in a text."""
    return PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[2] is None else f"{found[2]}=***", text)
