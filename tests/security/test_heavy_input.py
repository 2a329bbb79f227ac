"""No input keeps the others waiting: what is too large is refused before it is walked, and what is walked takes linear time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import pytest

from cortex_plane import Context
from cortex_plane.cli.logs import _hide_fields
from cortex_plane.dashboard.render import redacted as shown
from cortex_plane.errors import InvalidInput, did_you_mean
from cortex_plane.integrations.email.model import mailbox
from cortex_plane.jobs.submission import _payload
from cortex_plane.json import normal
from cortex_plane.json_schema import JsonSchema, check_document
from cortex_plane.people.model import checked_email
from cortex_plane.redaction import redacted
from cortex_plane.worker.reporter import _plain
from tests.hostile import grows_faster_than_its_text
from tests.http.conftest import Api

LONG = "k" * 1_000_000
PIECES = [
    "token-",
    "://:",
    "://a:b",
    '"token',
    '"secret" : ',
    "password = ",
    "Bearer ",
    "Bearer\t",
    "ctx_-",
    "cortex_apr_1_",
    "@",
]
PIECES += [" ", "=", "a=", '\\"', "[", "{", "\n", "\x1b[", "whsec_", "é", "-", "_", "sk-", ":", "/", "//", "#", "<", "Basic "]
SCHEMA = JsonSchema({"properties": {"a": {"type": "array", "items": {"type": "integer", "minimum": 3}}}})


def _tolerant(work: Callable[[str], Any]) -> Callable[[str], Any]:
    def tried(text: str) -> None:
        try:
            work(text)
        except InvalidInput:
            pass

    return tried


CLEANERS: dict[str, Callable[[str], Any]] = {
    "the log": lambda text: _hide_fields(("secret-of-ours",))(None, "info", {"event": text, text[:2_000]: [text]}),
    "a line of a run": lambda text: _plain(redacted({"message": text, "data": {"a": text}})),
    "the dashboard": lambda text: shown({"message": text, text[:2_000]: [text]}),
    "a payload": lambda text: normal({"a": text, text: [0]}, "payload"),
    "a payload's size": lambda text: _payload({"a": [text]}, 10_000),
    "an e-mail address": lambda text: mailbox(text, "to"),
    "a person's address": checked_email,
    "a suggestion": lambda text: did_you_mean(text, ["payload", "priority"]),
    "a schema": lambda text: SCHEMA.check({"a": [text[:3]] * len(text)}, "payload"),
}


@pytest.mark.parametrize("cleaner", CLEANERS)
def test_cleaning_takes_linear_time_whatever_the_text_is_made_of(cleaner: str) -> None:
    for pump in (one + other for one in PIECES for other in ("", *PIECES[:8])):
        slow = grows_faster_than_its_text(_tolerant(CLEANERS[cleaner]), partial(_repeated, pump))
        assert slow is None, f"{pump!r}: {slow}"


def _repeated(pump: str, length: int) -> str:
    return f'"{pump * (length // len(pump))}!'


TREE = {
    "type": "object",
    "$defs": {
        "node": {"anyOf": [{"$ref": f"#/$defs/{kind}"} for kind in ("section", "quote", "bullets")]},
        **{
            kind: {
                "type": "object",
                "properties": {"title": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            }
            for kind in ("section", "quote", "bullets")
        },
    },
    "properties": {"page": {"$ref": "#/$defs/node"}},
}
"""As pydantic has it for a recursive union, each member of which has `children`."""


@pytest.mark.parametrize("check", [JsonSchema(TREE).check, partial(check_document, TREE)], ids=["payload", "edits"])
def test_what_is_wrong_deep_in_a_tree_is_refused_soon(check: Callable[[Any, str], None]) -> None:
    deep: dict[str, Any] = {"title": 7}
    for _ in range(9):  # Each level made it three times as slow.
        deep = {"title": "fine", "children": [deep]}
    began = process_time()

    with pytest.raises(InvalidInput, match="payload"):
        check({"page": deep}, "payload")
    with pytest.raises(InvalidInput, match=r"7 is not of type"):
        check({"page": {"title": 7}}, "payload")

    assert process_time() - began < 0.5


def test_the_path_of_an_error_is_written_for_the_error_only() -> None:
    began = process_time()
    normal({LONG: [0] * 20_000}, "payload")
    with pytest.raises(InvalidInput) as refused:
        normal({LONG: [0] * 20_000 + [float("nan")]}, "payload")

    assert process_time() - began < 1.0  # 20,000 paths of a megabyte each took 2 s, and 500,000 of them 36.
    assert len(str(refused.value)) < 500
    assert refused.value.field == f"payload.{'k' * 80}[20000]"


@pytest.mark.parametrize("last", [0, 10**30, "\ud800"], ids=["plain", "long integer", "half a character"])
def test_a_payload_that_is_too_large_is_refused_before_it_is_walked(last: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def walked(*_: Any) -> None:
        raise AssertionError("walked")

    monkeypatch.setattr("cortex_plane.jobs.submission.normal", walked)

    with pytest.raises(InvalidInput, match="the limit is 1,000"):
        _payload({"a": [0] * 1_000 + [last]}, 1_000)


ATTACKS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a long key above many items": ("/jobs", lambda: _json({"agent": "any", "payload": {LONG: [0] * 500_000}})),
    "unknown fields": ("/jobs", lambda: _json({"agent": "any", **{f"k{number}": 1 for number in range(200_000)}})),
    "items of a wrong type": ("/jobs", lambda: _json({"agent": "typed", "payload": {"items": ["a"] * 150_000}})),
    "a long integer at the end": ("/jobs", lambda: _json({"agent": "any", "payload": {"a": [0] * 800_000 + [10**30]}})),
    "an unknown argument with a long name": ("/jobs", lambda: _json({"agent": "typed", "payload": {LONG: 1}})),
    "empty lists from nobody": ("/session", lambda: b"[" + b"[]," * 1_300_000 + b"1]"),
}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.anyio
@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_request_made_to_hurt_is_refused_soon(api: Api, attack: str) -> None:
    @api.plane.agent("typed")
    async def typed(ctx: Context, items: list[int] | None = None) -> None: ...

    @api.plane.agent("any")
    async def anything(ctx: Context, /, **more: Any) -> None: ...

    await api.plane.submit("any")
    client = await api.client("submitter") if ATTACKS[attack][0] != "/session" else await api.stranger()
    path, body = ATTACKS[attack][0], ATTACKS[attack][1]()
    measure = asyncio.create_task(_longest_pause())
    await asyncio.sleep(0)

    answer = await client.post(path, content=body, headers={"Content-Type": "application/json"})

    measure.cancel()
    assert answer.status_code in (413, 422), answer.text[:300]
    assert len(answer.content) < 5_000
    assert await measure < 4.0  # They took 6 to 36 s; now 0.1 to 0.6.


@pytest.mark.anyio
async def test_many_parameters_are_refused_soon(api: Api) -> None:
    client = await api.client("viewer")
    began = process_time()

    answer = await client.get("/jobs?" + "&".join(["a="] * 20_000))

    assert answer.status_code == 422
    assert len(answer.content) < 5_000
    assert process_time() - began < 2.0


COOKIES = {
    "backslashes": 'a="' + '\\"' * 30_000 + '"',
    "numbers of characters": 'a="' + "\\1" * 30_000 + '"',
    "names": "a=b;" * 15_000,
}


@pytest.mark.anyio
@pytest.mark.parametrize("cookie", COOKIES)
async def test_cookies_made_to_hurt_are_refused_before_they_are_read(api: Api, cookie: str) -> None:
    client = await api.stranger(Cookie=COOKIES[cookie])
    began = process_time()

    answers = [await client.get("/me"), await client.post("/session", json={"name": "ada", "password": "guess"})]

    assert process_time() - began < 1.0  # Each took 3 s.
    assert [(one.status_code, one.json()["type"]) for one in answers] == [(431, "/problems/cookies-too-large")] * 2


async def _longest_pause() -> float:
    """In processor time: what other programs take in between does not count."""
    longest, last = 0.0, process_time()
    try:
        while True:
            await asyncio.sleep(0.005)
            longest, last = max(longest, process_time() - last), process_time()
    except asyncio.CancelledError:
        return max(longest, process_time() - last)
