"""EMAIL_SEND: what is sent by each transport, what is not tried again, and what the audit keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cortex_plane import JobFailed, JobStatus, RetryPolicy
from cortex_plane.errors import InvalidInput
from cortex_plane.ids import derived_id
from cortex_plane.integrations.built_in import email_agent
from cortex_plane.integrations.email import GraphTransport, ResendTransport, SmtpTransport
from cortex_plane.testing import TestPlane
from tests.built_in.fakes import Api, Graph, Smtp, api, resend, smtp
from tests.durable.approval_scene import People

pytestmark = pytest.mark.anyio

SHORT = {"to": "ada@example.com", "subject": "Hello", "text": "Hi there"}
LONG = {
    "to": ["Ada Lovelace <ada@example.com>", "bob@example.com"],
    "cc": "cyd@example.com",
    "bcc": ["dan@example.com"],
    "reply_to": "desk@example.com",
    "from": "The Bot <bot@example.com>",
    "subject": "Grüße aus Köln",
    "text": "plain, ünd",
    "html": "<b>rich</b>",
}


@pytest.fixture
async def mail() -> AsyncIterator[Smtp]:
    async with smtp() as made:
        yield made


@pytest.fixture
async def service() -> AsyncIterator[Api]:
    async with api(resend) as made:
        yield made


@pytest.fixture
async def graph() -> AsyncIterator[Api]:
    async with api(Graph()) as made:
        yield made


def by_smtp(server: Smtp, **options: Any) -> SmtpTransport:
    return SmtpTransport("127.0.0.1", "bot@example.com", server.port, tls="none", **options)


def by_graph(server: Api, **options: Any) -> GraphTransport:
    asked = {"client_secret": "hush", "sender": "bot@example.com", "base_url": server.url, "login_url": server.url, **options}
    return GraphTransport("contoso", "app", **asked)


def by_resend(server: Api, key: str = "re_key") -> ResendTransport:
    return ResendTransport(key, "bot@example.com", server.url)


async def sent(plane: TestPlane, transport: Any, email: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    email_agent(plane, transport)
    job = await plane.submit("EMAIL_SEND", email)
    await plane.work()
    return job.id, await job.result(timeout=1)


# -- SMTP ----------------------------------------------------------------------------------------


async def test_smtp_carries_everything_and_hides_the_hidden(plane: TestPlane, mail: Smtp) -> None:
    job_id, output = await sent(plane, by_smtp(mail, username="bot", password="hush"), LONG)

    [(sender, recipients, message)] = mail.envelopes
    assert sender == "bot@example.com"
    assert recipients == ["ada@example.com", "bob@example.com", "cyd@example.com", "dan@example.com"]
    assert (message["To"], message["Cc"]) == ("Ada Lovelace <ada@example.com>, bob@example.com", "cyd@example.com")
    assert (message["From"], message["Reply-To"]) == ("The Bot <bot@example.com>", "desk@example.com")
    assert (message["Subject"], message["Bcc"]) == ("Grüße aus Köln", None)
    assert "dan@" not in str(message)
    assert [part.get_content().strip() for part in message.iter_parts()] == ["plain, ünd", "<b>rich</b>"]
    assert message["Date"].datetime == plane.clock.moment()
    assert mail.users == ["\0bot\0hush"]
    assert message["Message-ID"] == f"<{derived_id(job_id, 'send#1')}@example.com>"
    assert output == {
        "message_id": f"<{derived_id(job_id, 'send#1')}@example.com>",
        "transport": "smtp",
        "recipients": 4,
        "refused": {},
    }


async def test_html_alone_is_enough(plane: TestPlane, mail: Smtp) -> None:
    await sent(plane, by_smtp(mail), {"to": "ada@example.com", "subject": "x", "html": "<i>x</i>"})

    message = mail.envelopes[0][2]
    assert message.get_content_type() == "text/html"


@pytest.mark.parametrize(
    ("line", "reply", "tried_again", "said"),
    [
        ("connect", "421 Too busy", True, "421"),
        ("connect", "554 Go away", False, "554"),
        ("AUTH", "535 Bad credentials", False, "535"),
        ("AUTH", "454 Try later", True, "454"),
        ("MAIL", "553 Not yours", False, "553"),
        ("MAIL", "452 Disk full", True, "452"),
        ("RCPT", "550 No such user", False, "550 No such user"),
        ("RCPT", "450 Greylisted", True, "450 Greylisted"),
        ("DATA", "554 Spam", False, "554"),
        ("DATA", "451 Later", True, "451"),
    ],
)
async def test_smtp_refusals_for_now_are_tried_again_and_others_are_not(
    plane: TestPlane, mail: Smtp, line: str, reply: str, tried_again: bool, said: str
) -> None:
    mail.replies[line] = reply
    email_agent(plane, by_smtp(mail, username="bot", password="hush"))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    after = await job.job()
    assert after.status is (JobStatus.RETRY if tried_again else JobStatus.FAILED)
    assert said in after.error["message"]
    assert mail.envelopes == []


async def test_one_recipient_of_several_that_is_refused_does_not_stop_the_rest(plane: TestPlane, mail: Smtp) -> None:
    mail.replies["RCPT TO:<bob@"] = "550 No such user"
    _, output = await sent(plane, by_smtp(mail), {**SHORT, "to": ["ada@example.com", "bob@example.com"]})

    assert mail.envelopes[0][1] == ["ada@example.com"]
    assert (output["recipients"], output["refused"]) == (1, {"bob@example.com": "No such user"})


async def test_a_server_that_is_not_there_is_tried_again(plane: TestPlane) -> None:
    email_agent(plane, SmtpTransport("127.0.0.1", "bot@example.com", 9, tls="none"))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    assert await job.status() is JobStatus.RETRY


async def test_a_server_without_tls_is_not_spoken_to_in_the_clear(plane: TestPlane, mail: Smtp) -> None:
    email_agent(plane, SmtpTransport("127.0.0.1", "bot@example.com", mail.port, "bot", "hush"))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    assert await job.status() in (JobStatus.FAILED, JobStatus.RETRY)
    assert (mail.users, mail.envelopes) == ([], [])


def test_an_unknown_way_of_encrypting_is_refused() -> None:
    with pytest.raises(InvalidInput, match='"starttls", "tls", "auto" or "none"'):
        SmtpTransport("mail.example.com", "bot@example.com", tls="ssl")


# -- Resend --------------------------------------------------------------------------------------


async def test_resend_gets_its_own_words_and_a_key_against_sending_twice(plane: TestPlane, service: Api) -> None:
    job_id, output = await sent(plane, by_resend(service), LONG)

    [request] = service.requests
    assert request.headers["idempotency-key"] == derived_id(job_id, "send#1")
    assert request.json == {
        "from": "The Bot <bot@example.com>",
        "to": ["Ada Lovelace <ada@example.com>", "bob@example.com"],
        "cc": ["cyd@example.com"],
        "bcc": ["dan@example.com"],
        "reply_to": ["desk@example.com"],
        "subject": "Grüße aus Köln",
        "text": "plain, ünd",
        "html": "<b>rich</b>",
    }
    assert output["message_id"] == "49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"


async def test_what_is_not_asked_for_is_not_sent_to_resend(plane: TestPlane, service: Api) -> None:
    await sent(plane, by_resend(service), SHORT)

    expected = {"from": "bot@example.com", "to": ["ada@example.com"], "subject": "Hello", "text": "Hi there"}
    assert service.requests[0].json == expected


@pytest.mark.parametrize(
    ("status", "answer", "tried_again", "said"),
    [
        (422, {"name": "validation_error", "message": "Invalid `to` field"}, False, "Resend answered 422: Invalid `to` field"),
        (403, {"name": "invalid_from", "message": "Domain not verified"}, False, "Domain not verified"),
        (429, {"name": "rate_limit_exceeded", "message": "Too many"}, True, "429: Too many"),
        (409, {"name": "concurrent_idempotent_requests", "message": "in progress"}, True, "at this moment"),
        (409, {"name": "invalid_idempotent_request", "message": "another payload"}, False, "another payload"),
        (500, {"name": "application_error", "message": "Oops"}, True, "Oops"),
        (503, None, True, "503"),
    ],
)
async def test_what_resend_refuses_is_not_tried_again_unless_it_is_busy(
    plane: TestPlane, service: Api, status: int, answer: Any, tried_again: bool, said: str
) -> None:
    service.instead.append((status, {"retry-after": "2"}, answer))
    email_agent(plane, by_resend(service))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    after = await job.job()
    assert after.status is (JobStatus.RETRY if tried_again else JobStatus.FAILED)
    assert said in after.error["message"]


@pytest.mark.parametrize("wait", ["3600", "Wed, 18 Nov 2026 11:00:00 GMT"])
async def test_a_service_that_is_busy_is_left_alone_as_long_as_it_says(plane: TestPlane, service: Api, wait: str) -> None:
    busy = {"retry-after": wait, "date": "Wed, 18 Nov 2026 10:00:00 GMT"}
    service.instead += [(429, busy, {"message": "Too many"})] * 2
    email_agent(plane, by_resend(service), retry=RetryPolicy(max_retries=1))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    await plane.clock.advance(minutes=59)
    await plane.work()
    assert len(service.requests) == 1

    for _ in range(2):
        await plane.clock.advance(minutes=61)
        await plane.work()
    assert await job.status() is JobStatus.COMPLETED
    assert len(service.requests) == 3


async def test_the_second_attempt_carries_the_same_key(plane: TestPlane, service: Api) -> None:
    service.instead.append((500, {}, None))
    email_agent(plane, by_resend(service))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()
    await plane.clock.advance(minutes=5)
    await plane.work()

    assert await job.status() is JobStatus.COMPLETED
    assert {request.headers["idempotency-key"] for request in service.requests} == {derived_id(job.id, "send#1")}


async def test_a_wrong_key_is_never_shown(plane: TestPlane, service: Api) -> None:
    email_agent(plane, by_resend(service, key="re_wrong"))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    after = await job.job()
    assert (after.status, after.error_message) == (JobStatus.FAILED, "Resend answered 401: Missing API key")
    assert "re_wrong" not in repr((after, by_resend(service, key="re_wrong")))


# -- Microsoft Graph -----------------------------------------------------------------------------


async def test_graph_logs_in_once_and_sends(plane: TestPlane, graph: Api) -> None:
    job_id, output = await sent(plane, by_graph(graph), LONG)
    again = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    login, first, second = graph.requests
    assert login.path == "/contoso/oauth2/v2.0/token"
    assert first.json["message"] == {
        "subject": "Grüße aus Köln",
        "body": {"contentType": "HTML", "content": "<b>rich</b>"},
        "toRecipients": [
            {"emailAddress": {"address": "ada@example.com", "name": "Ada Lovelace"}},
            {"emailAddress": {"address": "bob@example.com"}},
        ],
        "ccRecipients": [{"emailAddress": {"address": "cyd@example.com"}}],
        "bccRecipients": [{"emailAddress": {"address": "dan@example.com"}}],
        "replyTo": [{"emailAddress": {"address": "desk@example.com"}}],
        "internetMessageHeaders": [{"name": "x-cortex-email-id", "value": derived_id(job_id, "send#1")}],
    }
    assert second.json["message"]["body"] == {"contentType": "Text", "content": "Hi there"}
    assert output["message_id"] == "b0d7ed68"
    assert await again.status() is JobStatus.COMPLETED


async def test_a_token_that_was_revoked_is_fetched_anew(plane: TestPlane, graph: Api) -> None:
    await sent(plane, by_graph(graph), SHORT)
    assert isinstance(graph.answer, Graph)
    graph.answer.good.clear()
    again = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    assert await again.status() is JobStatus.COMPLETED
    assert graph.answer.logins == 2


@pytest.mark.parametrize(
    ("options", "email", "said"),
    [
        ({"client_secret": "wrong"}, {}, "The Microsoft login answered 401: AADSTS7000215: Invalid client secret provided."),
        ({}, {"from": "eve@example.com"}, "Microsoft Graph answered 404: ErrorInvalidUser: The requested user is invalid."),
    ],
)
async def test_what_graph_refuses_is_not_tried_again(
    plane: TestPlane, graph: Api, options: dict[str, Any], email: dict[str, Any], said: str
) -> None:
    email_agent(plane, by_graph(graph, **options))
    job = await plane.submit("EMAIL_SEND", {**SHORT, **email})
    await plane.work()

    after = await job.job()
    assert (after.status, after.error_message) == (JobStatus.FAILED, said)


async def test_a_busy_graph_is_tried_again(plane: TestPlane, graph: Api) -> None:
    graph.instead.append((503, {}, {"error": {"code": "serviceNotAvailable", "message": "Busy"}}))
    email_agent(plane, by_graph(graph))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    assert await job.status() is JobStatus.RETRY


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_when_graph_breaks_down_over_an_email_people_are_asked_whether_it_was_sent(
    plane: TestPlane, graph: Api, status: int
) -> None:
    """A server or a proxy that gives up may have passed the e-mail on before."""
    await with_an_approver(plane)
    graph.instead += [(200, {}, {"access_token": "t", "expires_in": 3600}), (status, {}, {"error": {"code": "UnknownError"}})]
    email_agent(plane, by_graph(graph))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL
    assert len([request for request in graph.requests if request.path.endswith("/sendMail")]) == 1


async def test_when_the_login_of_graph_breaks_down_nothing_is_in_doubt(plane: TestPlane, graph: Api) -> None:
    graph.instead.append((502, {}, {"error": "temporarily_unavailable"}))
    email_agent(plane, by_graph(graph))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    assert await job.status() is JobStatus.RETRY


# -- the agent -----------------------------------------------------------------------------------


async def test_the_audit_keeps_that_it_was_sent_and_to_how_many(plane: TestPlane, mail: Smtp) -> None:
    job_id, _ = await sent(plane, by_smtp(mail), LONG)

    [record] = [one for one in await plane.store.audit.list(job_id) if one.entry.action == "EMAIL_SENT"]
    assert (record.entry.object_type, record.entry.actor) == ("job", "EMAIL_SEND")
    assert record.entry.details == {
        "recipients": 4,
        "transport": "smtp",
        "message_id": f"<{derived_id(job_id, 'send#1')}@example.com>",
    }
    assert record.entry.tenant_id is not None
    assert "ada@" not in repr(record)


async def test_what_was_not_sent_is_not_in_the_audit(plane: TestPlane, mail: Smtp) -> None:
    mail.replies["DATA"] = "554 Spam"
    email_agent(plane, by_smtp(mail))
    job = await plane.submit("EMAIL_SEND", SHORT)
    await plane.work()

    assert "EMAIL_SENT" not in [one.entry.action for one in await plane.store.audit.list(job.id)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"to": None}, "at least one recipient"),
        ({"to": []}, "at least one recipient"),
        ({"to": "nobody"}, "not an e-mail address"),
        ({"to": "a@b@c"}, "not an e-mail address"),
        ({"to": ["ada@example.com", "x y@example.com"]}, r"to\[1\] is"),
        ({"to": "ada@example.com\r\nBcc: all@example.com"}, "one line of text"),
        ({"to": "Eve\r\n <eve@example.com>"}, "one line of text"),
        ({"to": ["a@example.com"] * 101}, "at most 100 recipients"),
        ({"cc": 5}, "cc must be an address or a list"),
        ({"subject": None}, "subject must be one line"),
        ({"subject": "a\nBcc: all@example.com"}, "subject must be one line"),
        ({"subject": "x" * 901}, "subject must be one line"),
        ({"text": None}, "needs text or html"),
        ({"text": 5}, "text must be text"),
        ({"from": "me"}, "from is 'me'"),
        ({"reply-to": "a@example.com"}, 'Did you mean "reply_to"'),
        ({"attachments": []}, 'no field "attachments"'),
    ],
)
async def test_an_email_that_cannot_be_sent_fails_at_once(
    plane: TestPlane, mail: Smtp, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(JobFailed, match=message):
        await sent(plane, by_smtp(mail), {**SHORT, **change})

    assert mail.envelopes == []


async def test_the_agent_takes_another_name_and_the_options_of_agents(plane: TestPlane, mail: Smtp) -> None:
    agent = email_agent(plane, by_smtp(mail), name="newsletter", queue="mail", max_retries=9)
    job = await agent.submit(to="ada@example.com", subject="x", text="y")
    await plane.work()

    after = await job.job()
    assert (after.job_type, after.queue, after.max_retries, after.status) == ("newsletter", "mail", 9, JobStatus.COMPLETED)


# -- a worker that dies, an answer that is lost ----------------------------------------------------


async def with_an_approver(plane: TestPlane) -> People:
    people = People(plane)
    await people.add("alice")
    await people.make_approver("alice")
    return people


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_when_nobody_knows_whether_smtp_sent_it_people_are_asked(plane: TestPlane, mail: Smtp, hangs_up: bool) -> None:
    people, mail.hangs_up = await with_an_approver(plane), hangs_up
    email_agent(plane, by_smtp(mail))
    job = await plane.submit("EMAIL_SEND", SHORT)
    if not hangs_up:
        plane.crash_in("send")
    await plane.work()
    await plane.work()

    assert await job.status() is JobStatus.WAITING_FOR_APPROVAL
    assert len(mail.envelopes) == 1
    mail.hangs_up = False
    await people.approve(job, "alice")
    await plane.work()
    assert (await job.result(timeout=5))["recipients"] == 1
    assert len({message["Message-ID"] for _, _, message in mail.envelopes}) == 1


async def test_a_service_that_knows_the_key_is_asked_again(plane: TestPlane, service: Api) -> None:
    email_agent(plane, by_resend(service))
    job = await plane.submit("EMAIL_SEND", SHORT)
    plane.crash_in("send")
    await plane.work()
    await plane.work()

    assert (await job.result(timeout=5))["transport"] == "resend"
    assert [request.headers["idempotency-key"] for request in service.requests] == [derived_id(job.id, "send#1")] * 2


async def test_an_email_that_was_recorded_is_not_sent_again(plane: TestPlane, mail: Smtp) -> None:
    email_agent(plane, by_smtp(mail))
    job = await plane.submit("EMAIL_SEND", SHORT)
    plane.crash_after("send")
    await plane.work()
    await plane.work()

    await job.result(timeout=5)
    assert len(mail.envelopes) == 1
    assert len([one for one in await plane.store.audit.list(job.id) if one.entry.action == "EMAIL_SENT"]) == 1


async def test_another_way_can_be_chosen(plane: TestPlane, mail: Smtp) -> None:
    email_agent(plane, by_smtp(mail), on_uncertain="fail")
    job = await plane.submit("EMAIL_SEND", SHORT)
    plane.crash_in("send")
    await plane.work()
    await plane.work()

    assert (await job.job()).error["type"] == "ToolUncertain"
    assert len(mail.envelopes) == 1
