"""Keeps approval tokens out of what is logged or repeated: an address may hold one."""

from __future__ import annotations

import logging
import re

HIDDEN = "…"
# What follows the doors that take a token, and whatever looks like one or like part of one.
IN_A_PATH = re.compile(r"(?<=^/approvals/)[^/?#]+|(?<=^/api/approvals/)(?!(?:approve|deny)(?:[?#]|$))[^/?#]+")
ANYWHERE = re.compile(r"cortex_apr_[A-Za-z0-9_%.~-]*")

UVICORN_ACCESS = "uvicorn.access"


def hidden(path: str) -> str:
    """`/approvals/cortex_apr_1_…/x` is `/approvals/…/x`."""
    return ANYWHERE.sub(HIDDEN, IN_A_PATH.sub(HIDDEN, path))


class HideTokens(logging.Filter):
    """For the access log of a server that is not ours to configure."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(hidden(one) if isinstance(one, str) else one for one in record.args)
        record.msg = ANYWHERE.sub(HIDDEN, record.msg) if isinstance(record.msg, str) else record.msg
        return True


def hide_tokens_of_the_server() -> None:
    """`cortex serve` has no such log; whoever runs the app under a server of their own may have."""
    access_log = logging.getLogger(UVICORN_ACCESS)
    if not any(isinstance(one, HideTokens) for one in access_log.filters):
        access_log.addFilter(HideTokens())
