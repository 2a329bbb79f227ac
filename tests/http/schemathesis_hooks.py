"""What a description cannot say, told to the program that makes requests from it. Only good requests are touched."""

from __future__ import annotations

from typing import Any

import schemathesis
from schemathesis import Case, GenerationMode

# A key stands for one request, and a revision for one moment: what is made up by chance is refused, rightly.
MADE_UP = ("idempotency-key", "if-match", "x-cortex-tenant")
NAMES = ("name", "display_name", "email")
# What a pattern cannot say: a rule that comes, a target that is there, a zone, a permission, an address of any channel.
KNOWN = {
    "cron": "0 9 * * *",
    "target": "agent:echo",
    "timezone": "UTC",
    "scopes": ["agent:run:echo"],
    "address": "ada@example.com",
    "seal": f"1:{'0' * 64}",
}


@schemathesis.hook
def before_call(context: Any, case: Case[Any], kwargs: dict[str, Any]) -> None:
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    if case.query:
        case.query.pop("cursor", None)  # It is taken from a page as it is.
    if case.path_parameters.get("name") == "cortex":
        case.path_parameters["name"] = "default"  # The plane's own queue is shown, and cannot be steered.
    if "beginning" in case.path_parameters:
        case.path_parameters["beginning"] = "01970000"  # Of an id; a schedule's may be its name.
    for name in [name for name in case.headers or {} if name.lower() in MADE_UP]:
        del case.headers[name]
    if isinstance(case.body, dict):
        case.body = {field: _meant(field, value) for field, value in case.body.items()}


def _meant(field: str, value: Any) -> Any:
    if isinstance(value, str) and field in NAMES:  # No pattern can say what people can read.
        return "".join(letter for letter in value if letter.isprintable()).strip() or "x"
    if field in KNOWN and value is not None:
        return KNOWN[field]
    if isinstance(value, str) and field == "url":
        return "https://example.com/hook"
    if isinstance(value, str) and field == "secret":
        return None
    if isinstance(value, dict) and field == "callback":  # A job like others, but for what it is given when the group ends.
        value = {name: item for name, item in value.items() if name not in ("job_key", "payload")}
    if isinstance(value, list) and field == "members":
        value = [{name: item for name, item in member.items() if name != "key_mode"} for member in value]
    return _whole(value)


def _whole(value: Any) -> Any:
    """JSON Schema takes 5.0 for a whole number. We do not: who sends it means something else."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: _whole(item) for name, item in value.items()}
        case list():
            return [_whole(item) for item in value]
        case _:
            return value
