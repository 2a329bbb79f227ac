"""What to type next, ready to be copied, on the same database, or through the same server, and without its password."""

from __future__ import annotations

import re
import shlex

from cortex_plane.server_urls import is_server

PASSWORD = re.compile(r"(?<=://)([^/?#@:\s]*):(?!password@)[^/?#\s]*@|(?<=[?&])(password|sslpassword)=[^&\s'\"]*")


def next_step(lead: str, command: str, plane_url: str | None = None, *, style: str = "dim", stderr: bool = False) -> None:
    """`plane_url` as it was given to this command, if it was."""
    from cortex_plane.cli.output import console, words

    place = "" if plane_url is None else f" {_option(plane_url)} {shlex.quote(without_password(plane_url))}"
    console(stderr=stderr).print(words(f"{lead}:  {command}{place}", style), soft_wrap=True)


def _option(url: str) -> str:
    return "--server" if is_server(url) else "--database-url"


def without_password(text: str) -> str:
    """A database address, or a message that quotes one."""
    return PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[2] is None else f"{found[2]}=***", text)
