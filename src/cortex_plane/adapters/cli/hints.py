"""What to type next, ready to be copied, on the same database and without its password."""

from __future__ import annotations

import re
import shlex

PASSWORD = re.compile(r"(?<=://)([^/?#@:\s]*):(?!password@)[^/?#\s]*@|(?<=[?&])(password|sslpassword)=[^&\s'\"]*")


def next_step(lead: str, command: str, database_url: str | None = None, *, style: str = "dim", stderr: bool = False) -> None:
    """`database_url` as it was given to this command, if it was."""
    from cortex_plane.adapters.cli.output import console, words

    place = "" if database_url is None else f" --database-url {shlex.quote(without_password(database_url))}"
    console(stderr=stderr).print(words(f"{lead}:  {command}{place}", style), soft_wrap=True)


def without_password(text: str) -> str:
    """A database address, or a message that quotes one."""
    return PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[2] is None else f"{found[2]}=***", text)
