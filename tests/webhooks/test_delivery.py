"""What is sent, and what becomes of a delivery that does not succeed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from email.utils import format_datetime

import pytest

from cortex_plane.ids import new_id
from cortex_plane.jobs.model import Job, RunId
from cortex_plane.jobs.outcomes import Done
from cortex_plane.jobs.states import JobStatus
from cortex_plane.webhooks import store as webhooks
from cortex_plane.webhooks.delivery import redeliver_failed
from cortex_plane.webhooks.model import WEBHOOK_CONFIG, DeadLetterPage
from cortex_plane.webhooks.service import disable_endpoint, enable_endpoint, redeliver_webhook, remove_endpoint
from tests.contract.support import Raw
from tests.webhooks.conftest import Post
from tests.webhooks.receiver import HANG, HANG_UP, Receiver, answer

pytestmark = pytest.mark.anyio

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def only(post: Post) -> Job:
    [delivery] = await post.deliveries()
    return delivery


async def test_a_message_is_signed_and_names_its_event(post: Post, inbox: Receiver) -> None:
    await post.listen(inbox.url, secret=SECRET)
    job_id = await post.ended()
    await post.deliver()

    [message] = inbox.messages
    assert message.path == "/hooks?key=1"
    assert message.is_signed_with(SECRET)
    assert message.id == f"evt_{job_id.replace('-', '')}"
    assert int(message.headers["webhook-timestamp"]) == int(post.now.timestamp())
    assert message.event == (await only(post)).payload["event"]
    delivery = await only(post)
    assert (delivery.status, delivery.output) == (JobStatus.COMPLETED, {"delivered": True, "status": 204})


async def test_a_secret_that_was_made_here_signs_too(post: Post, inbox: Receiver) -> None:
    added = await post.listen(inbox.url)
    await post.ended(Done('{"text": "Grüße"}'))
    await post.deliver()

    assert added.secret is not None
    assert inbox.messages[0].is_signed_with(added.secret)
    assert not inbox.messages[0].is_signed_with(SECRET)


async def test_after_a_failure_the_same_message_comes_again_under_the_same_id(post: Post, inbox: Receiver) -> None:
    inbox.answers.append(answer("500 Internal Server Error", b"database\nis \x1b[31maway"))
    await post.listen(inbox.url, secret=SECRET)
    await post.ended()
    await post.deliver()

    waiting = await only(post)
    assert waiting.status is JobStatus.RETRY
    assert waiting.error["message"] == "The receiver answered 500: database is [31maway."

    await post.clock.advance(hours=6)
    await post.deliver()

    first, second = inbox.messages
    assert (await only(post)).status is JobStatus.COMPLETED
    assert (first.id, first.body) == (second.id, second.body)
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 6 * 3600
    assert second.is_signed_with(SECRET)


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
async def test_a_receiver_that_is_busy_is_asked_again_when_it_said(post: Post, inbox: Receiver, status: str) -> None:
    inbox.answers.append(answer(status, b"", **{"retry-after": "7200"}))
    await post.listen(inbox.url)
    await post.ended()
    await post.deliver()

    waiting = await only(post)
    assert waiting.next_retry_at == post.clock.moment() + timedelta(hours=2)


@pytest.mark.parametrize(
    "wait", ["0", "-5", "soon", "", "0.0", "Thu, 01 Jan 1970 00:00:00 GMT", "9" * 5000, "Tue, 00 Xyz 99999 99:99:99"]
)
async def test_no_answer_makes_a_delivery_come_sooner_than_the_backoff_says(post: Post, inbox: Receiver, wait: str) -> None:
    inbox.answers.append(answer("429 Too Many Requests", b"", **{"retry-after": wait}))
    await post.listen(inbox.url)
    await post.ended()
    await post.deliver()

    waiting = await only(post)
    assert waiting.status is JobStatus.RETRY
    assert waiting.next_retry_at is not None
    assert waiting.next_retry_at >= post.clock.moment() + timedelta(seconds=WEBHOOK_CONFIG.retry.backoff.base_seconds)


async def test_retry_after_may_be_a_date(post: Post, inbox: Receiver) -> None:
    until = post.clock.moment() + timedelta(hours=3)
    inbox.answers.append(answer("503 Service Unavailable", b"", **{"retry-after": format_datetime(until, usegmt=True)}))
    await post.listen(inbox.url)
    await post.ended()
    await post.deliver()

    assert (await only(post)).next_retry_at == until.replace(microsecond=0)


async def test_a_date_is_read_by_the_clock_of_the_service_that_names_it(post: Post, inbox: Receiver) -> None:
    there = post.clock.moment() - timedelta(days=2)
    dates = {"date": format_datetime(there, usegmt=True), "retry-after": format_datetime(there + timedelta(hours=1), usegmt=True)}
    inbox.answers.append(answer("503 Service Unavailable", b"", **dates))
    await post.listen(inbox.url)
    await post.ended()
    await post.deliver()

    assert (await only(post)).next_retry_at == post.clock.moment() + timedelta(hours=1)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (HANG, "127.0.0.1 did not answer within 0.2 s."),
        (HANG_UP, "127.0.0.1 did not answer: Server disconnected without sending a response."),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", "127.0.0.1 did not answer: peer closed connection"),
        (b"220 smtp.example.com ESMTP\r\n\r\n", "127.0.0.1 did not answer: illegal status line"),
        (answer("404 Not Found"), "The receiver answered 404."),
        (
            answer("302 Found", location="http://elsewhere.example.com/"),
            "The receiver answered 302, a redirect to http://elsewhere.example.com/. Redirects are not followed",
        ),
    ],
    ids=["hang", "hang up", "cut short", "not http", "404", "redirect"],
)
async def test_what_is_not_a_plain_yes_is_tried_again(post: Post, inbox: Receiver, reply: bytes, message: str) -> None:
    from cortex_plane.http_client import HttpxClient
    from cortex_plane.webhooks.delivery import webhook_agent

    post.code = webhook_agent(post.store, HttpxClient(), post.clock, timeout_seconds=0.2 if reply == HANG else 5.0)
    inbox.answers.append(reply)
    await post.listen(inbox.url)
    await post.ended()
    await post.deliver()

    waiting = await only(post)
    assert (waiting.status, waiting.retry_count) == (JobStatus.RETRY, 1)
    assert waiting.error["message"].startswith(message)
    assert len(inbox.messages) == 1


async def test_nobody_there_is_tried_again(post: Post) -> None:
    async with asyncio.timeout(20):
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
    await post.listen(f"http://127.0.0.1:{port}/")
    await post.ended()
    await post.deliver()

    waiting = await only(post)
    assert waiting.status is JobStatus.RETRY
    assert waiting.error["message"].startswith("127.0.0.1 cannot be reached")


async def test_an_endless_answer_is_read_no_further_than_needed(post: Post, inbox: Receiver) -> None:
    size = 50 * 1024 * 1024
    inbox.answers.append(answer("200 OK", b"x" * size))
    await post.listen(inbox.url)
    await post.ended()
    await post.deliver()

    assert (await only(post)).status is JobStatus.COMPLETED
    assert inbox.sent_bytes < size


async def test_gone_disables_the_endpoint_for_good(post: Post, inbox: Receiver) -> None:
    inbox.answers.append(answer("410 Gone"))
    endpoint = (await post.listen(inbox.url)).endpoint
    await post.ended()
    await post.deliver()
    await post.ended()
    await post.deliver()

    [after] = await post.store.webhooks.list()
    assert (after.enabled, after.disabled_reason, after.disabled_at) == (False, "It answered 410 Gone.", post.now)
    delivery = await only(post)
    assert (delivery.status, delivery.retry_count) == (JobStatus.FAILED, 0)
    assert delivery.error_message == "The receiver answered 410 Gone: it wants no more messages. The endpoint was disabled."
    assert len(inbox.messages) == 1
    [record] = [one for one in await post.store.audit.list(endpoint.id) if one.entry.action == "WEBHOOK_DISABLED"]
    assert (record.entry.actor, record.entry.tenant_id) == ("cortex.webhook", endpoint.tenant_id)


@pytest.mark.parametrize("host", ["127.0.0.1.nip.invalid", "localtest"])
async def test_a_name_that_cannot_be_looked_up_is_tried_again(post: Post, host: str) -> None:
    await post.listen(f"http://{host}/", allow_private=False)
    await post.ended()
    await post.deliver()

    waiting = await only(post)
    assert waiting.status is JobStatus.RETRY
    assert waiting.error["message"].startswith(f"{host} could not be resolved")


@pytest.mark.parametrize("host", ["2130706433", "0x7f.0.0.1", "127.1", "[::ffff:7f00:1]"])
async def test_a_private_address_is_refused_however_it_is_written(post: Post, inbox: Receiver, raw: Raw, host: str) -> None:
    """The check at the door sees only plain addresses; what a name leads to is seen when it is looked up."""
    await post.listen(f"http://{host}:{inbox.port}/")
    await raw("update cortex.webhook_endpoint set allow_private = false")
    await post.ended()
    await post.deliver()

    delivery = await only(post)
    assert (delivery.status, delivery.retry_count) == (JobStatus.FAILED, 0)
    assert "which is not a public address. Add the endpoint anew with allow_private" in str(delivery.error_message)
    assert inbox.messages == []


async def test_a_delivery_to_an_endpoint_that_was_removed_is_dropped(post: Post, inbox: Receiver) -> None:
    endpoint = (await post.listen(inbox.url)).endpoint
    await post.ended()
    await remove_endpoint(post.store, endpoint.id)
    await post.deliver()

    delivery = await only(post)
    assert (delivery.status, inbox.messages) == (JobStatus.COMPLETED, [])
    assert delivery.output == {"delivered": False, "reason": "the endpoint was removed"}


async def test_a_delivery_to_a_disabled_endpoint_can_be_sent_later(post: Post, inbox: Receiver) -> None:
    endpoint = (await post.listen(inbox.url)).endpoint
    await post.ended()
    await disable_endpoint(post.store, endpoint.id)
    await post.deliver()
    failed = await only(post)
    assert (failed.status, failed.retry_count) == (JobStatus.FAILED, 0)
    assert f"cortex webhooks redeliver {failed.id}" in str(failed.error_message)

    await enable_endpoint(post.store, endpoint.id)
    await redeliver_webhook(post.store, new_id, failed.id)
    await post.deliver()

    assert [message.id for message in inbox.messages] == [failed.payload["event_id"]]


async def test_what_fails_for_good_is_a_dead_letter_until_it_is_sent_again(post: Post, inbox: Receiver) -> None:
    inbox.answers.extend([answer("503 Busy", b"busy")] * 9)
    endpoint = (await post.listen(inbox.url)).endpoint
    await post.ended()
    for _ in range(9):
        assert (await post.store.webhooks.dead_letters()).letters == []
        await post.deliver()
        await post.clock.advance(hours=6)

    [dead] = (await post.store.webhooks.dead_letters()).letters
    delivery = await only(post)
    assert (dead.job_id, dead.endpoint_id, dead.url) == (delivery.id, endpoint.id, inbox.url)
    assert (dead.event_type, dead.event_id, dead.attempts) == ("job.completed", delivery.payload["event_id"], 9)
    assert (dead.error_message, dead.failed_at) == ("The receiver answered 503: busy.", delivery.finished_at)
    assert (await post.store.webhooks.dead_letters(before=dead.job_id)).letters == []
    assert await post.store.webhooks.dead_letters(limit=1) == DeadLetterPage([dead], dead.job_id)
    assert (await post.store.webhooks.dead_letters(endpoint.tenant_id)).letters == [dead]
    assert (await post.store.webhooks.dead_letters(type(endpoint.tenant_id)(new_id()))).letters == []

    again = await redeliver_webhook(post.store, new_id, dead.job_id, actor="ada")
    await post.deliver()

    assert (await post.store.webhooks.dead_letters()).letters == []
    assert (await post.job(again)).status is JobStatus.COMPLETED
    assert len({message.id for message in inbox.messages}) == 1


async def test_dead_letters_are_looked_for_in_steps_among_all_that_failed(
    post: Post, inbox: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "BATCH", 1)
    monkeypatch.setattr(webhooks, "LOOKED_THROUGH", 1)
    inbox.answers.extend([answer("503 Busy", b"busy")] * 9)
    await post.listen(inbox.url)
    await post.ended()
    for _ in range(9):
        await post.deliver()
        await post.clock.advance(hours=6)
    later = await post.submit()
    await post.store.jobs.cancel(later, None, None)

    first = await post.store.webhooks.dead_letters()
    second = await post.store.webhooks.dead_letters(before=first.next_before)

    assert (first.letters, first.next_before) == ([], later)
    assert len(second.letters) == 1


# -- tried again when the cause is gone ----------------------------------------------------------


async def dead_letter(post: Post, inbox: Receiver) -> Job:
    """Of a receiver that is away for a day and a half."""
    inbox.answers.extend([answer("500 Internal Server Error")] * 9)
    await post.listen(inbox.url)
    await post.ended()
    for _ in range(9):
        await post.deliver()
        await post.clock.advance(hours=6)
    dead = await only(post)
    assert dead.status is JobStatus.FAILED
    return dead


async def test_a_dead_letter_is_sent_when_the_receiver_is_back(post: Post, inbox: Receiver) -> None:
    dead = await dead_letter(post, inbox)
    assert await redeliver_failed(post.store, new_id) == 0

    await post.clock.advance(days=2)
    assert await redeliver_failed(post.store, new_id) == 1
    assert await redeliver_failed(post.store, new_id) == 0
    await post.deliver()

    first, again = await post.deliveries()
    assert (first.id, again.retry_of, again.status) == (dead.id, dead.id, JobStatus.COMPLETED)
    assert {message.id for message in inbox.messages} == {first.payload["event_id"]}
    assert (await post.store.webhooks.dead_letters()).letters == []


async def test_a_delivery_that_never_succeeds_is_given_up_after_a_week(post: Post, inbox: Receiver) -> None:
    inbox.answers.extend([answer("410 Gone")] * 1000)
    await post.listen(inbox.url)
    await post.ended()
    for _ in range(9 * 12):
        [endpoint] = await post.store.webhooks.list()
        if not endpoint.enabled:
            await enable_endpoint(post.store, endpoint.id)
        await redeliver_failed(post.store, new_id)
        await post.deliver()
        await post.clock.advance(hours=2)

    assert 4 <= len(inbox.messages) <= 12
    assert len((await post.store.webhooks.dead_letters()).letters) == 1


async def test_to_a_disabled_endpoint_nothing_is_tried_until_it_is_enabled(post: Post, inbox: Receiver) -> None:
    inbox.answers.append(answer("410 Gone"))
    await post.listen(inbox.url)
    [endpoint] = await post.store.webhooks.list()
    await post.ended()
    await post.deliver()
    await post.clock.advance(days=1)
    assert await redeliver_failed(post.store, new_id) == 0

    await enable_endpoint(post.store, endpoint.id)
    await post.clock.advance(minutes=5)
    assert await redeliver_failed(post.store, new_id) == 1
    await post.deliver()

    assert [message.id for message in inbox.messages] == [inbox.messages[0].id] * 2
    assert (await post.deliveries())[-1].status is JobStatus.COMPLETED


async def test_what_a_person_has_sent_again_is_not_sent_twice(post: Post, inbox: Receiver) -> None:
    dead = await dead_letter(post, inbox)
    await redeliver_webhook(post.store, new_id, dead.id)
    await post.clock.advance(days=2)

    assert await redeliver_failed(post.store, new_id) == 0
    assert len(await post.deliveries()) == 2


async def test_three_dead_workers_poison_no_delivery(post: Post, inbox: Receiver) -> None:
    await post.listen(inbox.url)
    await post.ended()
    for _ in range(12):
        worker = await post.worker()
        [_] = await post.store.queue.claim(worker, ["cortex"], ["cortex.webhook"], [RunId(new_id())])
        await post.store.workers.give_up(worker)
        assert await post.rescue() == 1
        await post.clock.advance(hours=6)
        await post.store.queue.promote_due(10)
    await post.deliver()

    assert (await only(post)).status is JobStatus.COMPLETED
