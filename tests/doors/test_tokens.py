"""What counts as a token: exactly what was sent, for exactly that request, until exactly then, once."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from httpx import AsyncClient, Response

from cortex_plane import JobStatus
from cortex_plane.approvals.decisions import PREFIX, hash_of, mint
from cortex_plane.approvals.http import MOST_UNKNOWN_TOKENS
from cortex_plane.approvals.model import ApprovalRequest
from cortex_plane.people.login import WINDOW_SECONDS
from tests.doors.house import House, Person

pytestmark = pytest.mark.anyio

SAME_ID = {"X-Request-Id": "the-same"}
FULL_OF_UNDERSCORES = mint(bytes([255] * 32)).plaintext


async def put(house: House, request: ApprovalRequest, person: Person, plaintext: str) -> None:
    address = person.chats["telegram"]
    assert await house.store.approvals.put_token(request.id, person.user.id, "telegram", address, hash_of(plaintext))


async def approve(client: AsyncClient, token: str) -> Response:
    return await client.post(f"/api/approvals/{quote(token, safe='')}/approve", headers=SAME_ID)


async def test_a_token_may_be_full_of_underscores(house: House, alice: Person) -> None:
    _, request = await house.asked(alice)
    assert FULL_OF_UNDERSCORES.count("_") > 40
    await put(house, request, alice, FULL_OF_UNDERSCORES)

    answer = await approve(house.client, FULL_OF_UNDERSCORES)

    assert (answer.status_code, answer.json()["by"]) == (200, "Alice")


async def test_one_character_that_is_changed_makes_it_unknown_wherever_it_is(house: House, alice: Person) -> None:
    job, request = await house.asked(alice)
    good = (await house.token(request, alice)).plaintext
    unknown = await approve(house.client, mint(bytes(32)).plaintext)

    for place, char in enumerate(good):
        other = good[:place] + ("A" if char != "A" else "B") + good[place + 1 :]
        async with await house.visitor(f"10.0.0.{place}") as visitor:
            answer = await approve(visitor, other)
        assert (answer.status_code, answer.content) == (404, unknown.content), place

    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL
    assert (await approve(house.client, good)).status_code == 200


@pytest.mark.parametrize(
    "made_up",
    [
        "",
        " ",
        "x",
        PREFIX,
        PREFIX + "A" * 42,
        PREFIX + "A" * 44,
        PREFIX + "A" * 42 + "B",
        "cortex_apr_2_" + "A" * 43,
        "cortex_apr_01_" + "A" * 43,
        "CORTEX_APR_1_" + "A" * 43,
        " " + PREFIX + "A" * 43,
        PREFIX + "A" * 43 + "\n",
        PREFIX + "A" * 42 + "ä",
        PREFIX + "A" * 42 + "=",
        PREFIX + "A" * 20_000,
        "' or '1'='1",
        "\ufeff" + PREFIX + "A" * 43,
    ],
)
async def test_what_is_no_token_is_answered_as_one_that_is_unknown(house: House, alice: Person, made_up: str) -> None:
    unknown = await house.client.post("/api/approvals/approve", json={"token": mint(bytes(32)).plaintext}, headers=SAME_ID)

    answer = await house.client.post("/api/approvals/approve", json={"token": made_up}, headers=SAME_ID)

    assert (answer.status_code, answer.content) == (unknown.status_code, unknown.content)
    assert answer.headers == unknown.headers
    if made_up.strip() and len(made_up) < 1000:
        in_path = await approve(house.client, made_up)
        assert (in_path.status_code, in_path.content) == (404, unknown.content)


async def test_a_token_is_for_its_own_request_and_for_no_other(house: House, alice: Person) -> None:
    first, one = await house.asked(alice)
    second, other = await house.asked(alice)
    token = (await house.token(one, alice)).plaintext
    await house.token(other, alice)

    assert (await approve(house.client, token)).json()["id"] == one.id

    assert await first.status() is JobStatus.RUNNING
    assert await second.status() is JobStatus.WAITING_FOR_APPROVAL


async def test_a_token_works_once(house: House, alice: Person) -> None:
    _, request = await house.asked(alice)
    token = (await house.token(request, alice)).plaintext
    first = await approve(house.client, token)

    again = await approve(house.client, token)
    otherwise = await house.client.post("/api/approvals/deny", json={"token": token})

    assert first.json()["status"] == "decided"
    assert again.json() == first.json()  # The answer may have been lost.
    assert (otherwise.status_code, otherwise.json()["decision"], otherwise.json()["by"]) == (409, "approved", "Alice")


async def test_a_token_works_until_the_last_microsecond_and_not_one_longer(house: House, alice: Person) -> None:
    jobs = [await house.asked(alice, ttl=60), await house.asked(alice, ttl=60)]
    tokens = [(await house.token(request, alice)).plaintext for _, request in jobs]
    until = min(request.expires_at for _, request in jobs)
    ends = [request.expires_at for _, request in jobs]
    if ends[0] != ends[1]:
        pytest.skip("the clock moved between the two")
    now = house.plane.clock

    await now.advance(seconds=60 - 0.000_001)
    in_time = await approve(house.client, tokens[0])
    await now.advance(seconds=0.000_001)
    too_late = await approve(house.client, tokens[1])

    assert in_time.status_code == 200
    assert (too_late.status_code, too_late.json()["type"]) == (410, "/problems/approval-expired")
    assert too_late.json()["at"] == until.isoformat()


async def test_guessing_is_stopped_by_address_and_those_who_have_a_token_are_not(house: House, alice: Person) -> None:
    _, request = await house.asked(alice)
    token = (await house.token(request, alice)).plaintext
    async with await house.visitor("10.9.9.9") as guesser:
        for _ in range(MOST_UNKNOWN_TOKENS):
            assert (await approve(guesser, "guess")).status_code == 404

        stopped = await approve(guesser, "guess")
        page = await guesser.get("/approvals/guess")
        elsewhere = await approve(house.client, "guess")
        await house.plane.clock.advance(seconds=WINDOW_SECONDS + 1)
        later = await approve(guesser, "guess")

        assert (stopped.status_code, page.status_code, elsewhere.status_code, later.status_code) == (429, 429, 404, 404)
        assert int(stopped.headers["retry-after"]) > 0
        assert (await approve(guesser, token)).status_code == 200
