"""The execution service over HTTP: who gets in, how often, and that the same request is carried out once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import jwt
import pytest
from httpx import ASGITransport, AsyncClient, Response
from structlog.testing import capture_logs

from cortex_plane.clock import SECOND
from cortex_plane.grants.execution_client import TokenSigner
from cortex_plane.http.app import create_app
from tests.contract.support import raw_client
from tests.http.conftest import INTERNAL, OTHER_SECRET, OTHER_SIGNING, SECRET, SIGNING, Api, with_secrets

pytestmark = pytest.mark.anyio

AUDIENCE = "cortex-execution"


async def grant_for(api: Api, *scopes: str, **options: Any) -> str:
    return (await api.plane.grants.add(scopes or ["agent:run:*", "graph:execute:*"], **options)).id


async def start(service: AsyncClient, grant_id: str, key: str = "a-key", graph_id: str = "agent:echo", **given: Any) -> Response:
    body = {"executionGrantId": grant_id, "input": given}
    return await service.post(f"/graphs/{graph_id}/runs", json=body, headers={"Idempotency-Key": key})


def signed(api: Api, secret: str = SIGNING, algorithm: str = "HS256", **claims: Any) -> str:
    now = api.plane.clock.now() // SECOND
    said = {"sub": "scheduler", "aud": AUDIENCE, "exp": now + 60, **claims}
    return jwt.encode({name: value for name, value in said.items() if value is not None}, secret, algorithm)


# -- who -----------------------------------------------------------------------------------------


async def test_a_run_is_started_looked_at_and_stopped(api: Api) -> None:
    service, grant_id = await api.service(), await grant_for(api)

    started = await start(service, grant_id, word="hi")
    run_id = started.json()["runId"]
    queued = (await service.get(f"/runs/{run_id}")).json()
    await api.plane.work()
    ended = (await service.get(f"/runs/{run_id}?wait=5")).json()

    assert started.status_code == 201
    assert started.json() == {"runId": run_id, "traceId": queued["traceId"], "ok": True}
    assert (queued["status"], queued["ok"]) == ("queued", None)
    assert ended == {**queued, "status": "success", "ok": True}
    assert (await service.post(f"/runs/{run_id}/stop", json={})).json() == {"stopped": False}
    later = (await start(service, grant_id, "another")).json()["runId"]
    assert (await service.post(f"/runs/{later}/stop", json={"reason": "enough"})).json() == {"stopped": True}
    assert (await service.get(f"/runs/{later}")).json()["errorCode"] == "run_cancelled"


@pytest.mark.parametrize("secret", [SECRET, OTHER_SECRET])
async def test_both_secrets_are_taken_while_they_are_exchanged(api: Api, secret: str) -> None:
    assert (await start(await api.service(secret), await grant_for(api))).status_code == 201


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer ", "Bearer", f"Basic {SECRET}", SECRET, f"Bearer {SECRET}x", "Bearer é"]
)
async def test_without_the_secret_nobody_gets_in(api: Api, header: str) -> None:
    stranger = await api.stranger()

    refused = await stranger.post(f"{INTERNAL}/graphs/x/runs", headers={b"Authorization": header.encode()})

    assert (refused.status_code, refused.json()["type"]) == (401, "/problems/not-signed-in")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert SECRET not in refused.text


async def test_a_service_without_any_secret_lets_nobody_in(api: Api) -> None:
    nothing = dict.fromkeys(("internal_api_token", "internal_api_previous_token"), "")
    signing = dict.fromkeys(("internal_jwt_secret", "internal_jwt_previous_secret"), "")
    app = create_app(api.plane, with_secrets(api.plane.settings, **nothing, **signing))
    async with AsyncClient(transport=ASGITransport(app), base_url=INTERNAL) as client:
        for shown in ("", SECRET, jwt.encode({"aud": AUDIENCE, "exp": 9e9}, "", "none")):
            refused = await client.get("/runs/x", headers={"Authorization": f"Bearer {shown}"})
            assert refused.status_code == 401


@pytest.mark.parametrize("secret", [SIGNING, OTHER_SIGNING])
async def test_a_signed_token_is_taken_and_both_keys_while_they_are_exchanged(api: Api, secret: str) -> None:
    service = await api.service(signed(api, secret), **{"X-Service-Name": "somebody else"})

    run_id = (await start(service, await grant_for(api))).json()["runId"]

    request = await api.plane.store.requests.by_run(run_id)
    assert request is not None
    assert request.service_name == "scheduler", "what is signed goes before what is said"


WRONG_CLAIMS: list[Mapping[str, Any]] = [
    {"aud": "somebody-else"},
    {"aud": None},
    {"exp": -1},
    {"exp": None},
    {"exp": "9999999999"},
    {"exp": True},
    {"nbf": 99_999_999_999},
    {"secret": "a-key-that-nobody-here-has-ever-seen-x"},
    {"secret": SIGNING * 2, "algorithm": "HS512"},
    {"secret": "", "algorithm": "none"},
]


@pytest.mark.parametrize("claims", WRONG_CLAIMS, ids=str)
async def test_a_token_of_another_kind_key_audience_or_time_is_refused(api: Api, claims: Mapping[str, Any]) -> None:
    if claims.get("exp") == -1:
        claims = {"exp": api.plane.clock.now() // SECOND}
    service = await api.service(signed(api, **claims))

    assert (await service.get("/runs/x")).json()["type"] == "/problems/not-signed-in"


async def test_a_token_is_good_until_it_expires_by_our_clock(api: Api) -> None:
    signer = TokenSigner(SIGNING, AUDIENCE, "scheduler", api.plane.clock)
    service, grant_id = await api.service(signer.token()), await grant_for(api)

    assert (await start(service, grant_id)).status_code == 201
    await api.plane.clock.advance(seconds=60)
    assert (await start(service, grant_id)).status_code == 401
    assert (await start(await api.service(signer.token()), grant_id)).status_code == 201


async def test_guessing_secrets_is_stopped(api: Api) -> None:
    service = await api.service("guess")
    for _ in range(100):
        await service.get("/runs/x")

    assert (await service.get("/runs/x")).json()["type"] == "/problems/too-many-tries"


async def test_who_calls_is_logged_in_its_own_words_and_no_secret_is(api: Api) -> None:
    service = await api.service(**{"X-Service-Name": "scheduler-7"})

    with capture_logs() as logs:
        await start(service, await grant_for(api))

    [called] = [line for line in logs if line["event"] == "service.called"]
    assert (called["caller"], called["said_to_be"]) == ("service:secret", "scheduler-7")
    assert SECRET not in str(logs)


# -- how often -----------------------------------------------------------------------------------


async def test_each_secret_may_call_a_hundred_times_a_second_on_all_servers_together(api: Api) -> None:
    service, other = await api.service(), await api.service(OTHER_SECRET)
    second_server = create_app(api.plane, with_secrets(api.plane.settings))
    async with AsyncClient(
        transport=ASGITransport(second_server), base_url=INTERNAL, headers={"Authorization": f"Bearer {SECRET}"}
    ) as elsewhere:
        answers = [await (elsewhere if number % 2 else service).get("/runs/x") for number in range(100)]
        refused = await elsewhere.get("/runs/x")

    assert 429 not in {answer.status_code for answer in answers}
    assert (refused.status_code, refused.json()["type"]) == (429, "/problems/too-many-requests")
    assert int(refused.headers["retry-after"]) >= 1
    assert (await other.get("/runs/x")).status_code != 429
    await api.plane.clock.advance(seconds=1)
    assert (await service.get("/runs/x")).status_code != 429


async def test_signed_callers_are_counted_by_name_not_by_token(api: Api) -> None:
    app = create_app(api.plane, with_secrets(api.plane.settings, internal_api_requests_per_second=3))
    async with AsyncClient(transport=ASGITransport(app), base_url=INTERNAL) as client:
        tokens = [signed(api, jti=str(number)) for number in range(4)]
        statuses = [(await client.get("/runs/x", headers={"Authorization": f"Bearer {token}"})).status_code for token in tokens]

    assert [status == 429 for status in statuses] == [False, False, False, True]


# -- once ----------------------------------------------------------------------------------------


async def test_a_request_without_a_key_is_refused(api: Api) -> None:
    service, grant_id = await api.service(), await grant_for(api)

    refused = await service.post("/graphs/agent:echo/runs", json={"executionGrantId": grant_id, "input": {}})

    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "Idempotency-Key"
    assert refused.json()["code"] == "invalid_input"
    assert await api.plane.jobs.list() == []


async def test_the_same_request_has_the_same_answer_and_says_so_even_when_its_job_is_gone(api: Api, database_url: str) -> None:
    service, grant_id = await api.service(), await grant_for(api)
    first = await start(service, grant_id, word="a")
    await api.plane.work()
    async with raw_client(database_url, api.plane.clock) as raw:
        await raw(f"delete from cortex.job where id = '{first.json()['runId']}'")

    again = await start(service, grant_id, word="a")

    assert (again.status_code, again.json()) == (201, first.json())
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert (await service.get(f"/runs/{first.json()['runId']}")).json()["status"] == "success"
    assert await api.plane.jobs.list() == []


async def test_another_body_under_the_same_key_is_422(api: Api) -> None:
    service, grant_id = await api.service(), await grant_for(api)
    await start(service, grant_id, word="a")

    for other in (
        await start(service, grant_id, word="b"),
        await start(service, grant_id, graph_id="agent:fail", word="a"),
        await start(service, await grant_for(api), word="a"),
    ):
        assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
        assert other.json()["code"] == "key_reused"
    assert len(await api.plane.jobs.list()) == 1


async def test_requests_at_the_same_time_start_one_run_and_all_get_its_answer(api: Api) -> None:
    service, grant_id = await api.service(), await grant_for(api)

    answers = await asyncio.gather(*(start(service, grant_id) for _ in range(10)))

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["runId"] for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert (await api.plane.grants.get(grant_id)).uses == 1


# -- what ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph_id", ["langgraph:poet", "team/poets:poet", "a/runs", "langgraph:späte lyrik", "50%:poet"])
@pytest.mark.parametrize("door", ["internal", "public"])
async def test_ids_of_graphs_may_hold_colons_and_slashes(api: Api, graph_id: str, door: str) -> None:
    @api.plane.agent(graph_id)
    async def poet(ctx: Any) -> str:
        return graph_id

    grant_id = await grant_for(api, f"graph:execute:{graph_id}")
    client = await (api.service() if door == "internal" else api.client("operator"))
    body = {"executionGrantId": grant_id} if door == "internal" else {"grant": grant_id}
    encoded, plain = quote(graph_id, safe=""), quote(graph_id, safe="/:")

    answers = [await client.post(f"/graphs/{way}/runs", json=body, headers={"Idempotency-Key": way}) for way in {encoded, plain}]

    assert {answer.status_code for answer in answers} == {201}, answers[0].text
    assert {job.job_type for job in await api.plane.jobs.list()} == {graph_id}


async def test_refusals_carry_one_word_for_programs(api: Api) -> None:
    service = await api.service()
    spent = await grant_for(api, max_uses=1)
    await start(service, spent, "first")
    revoked = await grant_for(api)
    await api.plane.grants.revoke(revoked)
    answers = {
        "scope_missing": await start(service, await grant_for(api, "agent:run:other"), "k1"),
        "grant_revoked": await start(service, revoked, "k2"),
        "grant_used_up": await start(service, spent, "k3"),
        "grant_not_found": await start(service, "0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60", "k4"),
        "unknown_target": await start(service, await grant_for(api), "k5", "agent:nobody"),
    }

    for code, answer in answers.items():
        assert (answer.json()["code"], answer.status_code) == (code, 404 if "found" in code or "unknown" in code else 403)
    missing = await service.get("/runs/0197c5b2-6f00-7a31-9c4e-2b7d5f1a8e60")
    assert missing.json()["type"] == "/problems/run-not-found"


async def test_a_look_waits_for_the_end(api: Api) -> None:
    service, grant_id = await api.service(), await grant_for(api)
    run_id = (await start(service, grant_id)).json()["runId"]

    looking = asyncio.create_task(service.get(f"/runs/{run_id}?wait=30"))
    await asyncio.sleep(0)
    await api.plane.work()

    assert (await looking).json()["status"] == "success"


# -- for people ----------------------------------------------------------------------------------


async def test_an_operator_starts_runs_under_any_grant_and_a_submitter_under_their_own(api: Api) -> None:
    await api.plane.access.add_user("ada")
    await api.plane.access.give_role("ada", "submitter", tenant="default")
    operator, ada = await api.client("operator"), await api.client("submitter", user="ada")
    grants = [
        (await operator.post("/grants", json={"scopes": ["agent:run:echo"], "user": user})).json()["id"] for user in ("ada", None)
    ]
    run = {"input": {"word": "x"}}

    async def ask(client: AsyncClient, grant: str, key: str = "k") -> Response:
        headers = {"Idempotency-Key": key}
        return await client.post("/graphs/agent:echo/runs", json={"grant": grant, **run}, headers=headers)

    mine, again, not_mine = await ask(ada, grants[0]), await ask(ada, grants[0]), await ask(ada, grants[1])
    by_operator = [await ask(operator, grant, grant) for grant in grants]

    assert (mine.status_code, again.json(), again.headers["idempotency-replayed"]) == (201, mine.json(), "true")
    assert (not_mine.status_code, not_mine.json()["type"]) == (403, "/problems/denied")
    assert {answer.status_code for answer in by_operator} == {201}
    other = await ada.post("/graphs/agent:echo/runs", json={"grant": grants[0]}, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
    await api.plane.work()
    assert (await ada.get(mine.headers["location"].removeprefix("/api/v1"))).json()["progress"] == "success"


async def test_nobody_can_use_up_the_key_of_a_slot(api: Api) -> None:
    operator = await api.client("operator")
    schedule = await api.plane.schedules.add("hourly", "agent:echo", "0 * * * *")
    assert schedule.next_run_at is not None
    key = f"{schedule.id}:{schedule.next_run_at.isoformat()}"

    taken = await operator.post(
        "/graphs/agent:echo/runs", json={"grant": schedule.grant_id, "input": {"word": "no"}}, headers={"Idempotency-Key": key}
    )
    slots = await start(await api.service(), schedule.grant_id, key)

    assert (taken.status_code, slots.status_code) == (201, 201)
    assert "idempotency-replayed" not in slots.headers
