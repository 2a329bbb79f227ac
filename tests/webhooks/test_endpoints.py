"""What may be asked for, what is kept, and what is never shown."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.agents.directory import Directory
from cortex_plane.errors import Conflict, InvalidInput, TenantNotFound
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import TenantId
from cortex_plane.webhooks.model import EndpointNotFound
from cortex_plane.webhooks.service import disable_endpoint, enable_endpoint, redeliver_webhook, remove_endpoint, send_test_event
from tests.contract.support import Raw, Refused
from tests.webhooks.conftest import Post
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.anyio

URL = "https://hooks.example.com/in?key=s3cret"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def test_an_endpoint_comes_back_without_its_secret(post: Post) -> None:
    added = await post.listen(
        URL, events=["job.failed", "job.failed"], description="pager", created_by="ada", allow_private=False
    )

    [endpoint] = await post.store.webhooks.list()
    assert endpoint == added.endpoint
    assert (endpoint.url, endpoint.events, endpoint.tenant) == (URL, ["job.failed"], "default")
    assert (endpoint.description, endpoint.created_by, endpoint.created_at) == ("pager", "ada", post.now)
    assert (endpoint.enabled, endpoint.allow_private, endpoint.disabled_at, endpoint.disabled_reason) == (True, False, None, None)
    assert added.secret is not None
    assert added.secret.startswith("whsec_")
    assert added.secret not in repr(added)
    assert not hasattr(endpoint, "secret")


async def test_a_secret_that_was_given_is_not_shown_again(post: Post) -> None:
    assert (await post.listen(URL, secret=SECRET)).secret is None


async def test_no_two_secrets_are_the_same(post: Post) -> None:
    assert len({(await post.listen(URL)).secret for _ in range(5)}) == 5


async def test_what_is_done_to_an_endpoint_is_in_the_audit_without_key_or_secret(post: Post) -> None:
    added = await post.listen(URL, created_by="ada", allow_private=False)
    endpoint_id = added.endpoint.id
    await disable_endpoint(post.store, endpoint_id, actor="bob", reason="too loud")
    await disable_endpoint(post.store, endpoint_id, actor="bob", reason="again")
    await enable_endpoint(post.store, endpoint_id, actor="bob")
    await enable_endpoint(post.store, endpoint_id, actor="bob")
    await remove_endpoint(post.store, endpoint_id[:20], actor="cyd")

    records = [record.entry for record in await post.store.audit.list(endpoint_id)]
    assert [(one.action, one.actor, one.reason) for one in records] == [
        ("WEBHOOK_ADDED", "ada", None),
        ("WEBHOOK_DISABLED", "bob", "too loud"),
        ("WEBHOOK_ENABLED", "bob", None),
        ("WEBHOOK_REMOVED", "cyd", None),
    ]
    assert records[0].details == {"host": "hooks.example.com", "events": ["*"], "allow_private": False}
    assert "s3cret" not in repr(records)


@pytest.mark.parametrize(
    ("wish", "field", "message"),
    [
        ({"url": "ftp://example.com/"}, "url", "must begin with https://"),
        ({"url": "example.com"}, "url", "must begin with https://"),
        ({"url": "https:///path"}, "url", "names no host"),
        ({"url": "https://me:pass@example.com/"}, "url", "must not hold a user name or password"),
        ({"url": "https://me@example.com/"}, "url", "must not hold a user name or password"),
        ({"url": "https://example.com/#top"}, "url", "after #"),
        ({"url": "https://example.com:99999/"}, "url", "cannot be read"),
        ({"url": "https://[::1"}, "url", "cannot be read"),
        ({"url": "https://example.com/a b"}, "url", "without spaces"),
        ({"url": "https://example.com/\r\nhost: x"}, "url", "without spaces"),
        ({"url": f"https://example.com/{'x' * 2000}"}, "url", "at most 2,000"),
        ({"url": 5}, "url", "must be an address"),
        ({"url": "http://127.0.0.1/"}, "url", "a private address"),
        ({"url": "http://localhost:8000/"}, "url", "a private address"),
        ({"url": "http://api.localhost/"}, "url", "a private address"),
        ({"url": "http://169.254.169.254/latest"}, "url", "a private address"),
        ({"url": "http://[fd00::1]/"}, "url", "a private address"),
        ({"events": []}, "events", "at least one of"),
        ({"events": "job.failed"}, "events", "must be a list"),
        ({"events": ["job.complete"]}, "events", 'Did you mean "job.completed"?'),
        ({"events": ["job.failed", 5]}, "events", "There is no event 5"),
        ({"secret": "hunter2"}, "secret", "whsec_"),
        ({"secret": "whsec_c2hvcnQ="}, "secret", "24 to 64"),
        ({"secret": "whsec_***************************************"}, "secret", "base64"),
        ({"description": "x" * 501}, "description", "at most 500"),
    ],
)
async def test_a_wish_that_cannot_be_met_names_its_field(post: Post, wish: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await post.listen(**{"url": URL, "allow_private": False, **wish})

    assert refused.value.field == field
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert await post.store.webhooks.list() == []


async def test_an_unknown_tenant_is_named(post: Post) -> None:
    with pytest.raises(TenantNotFound, match="acme"):
        await post.listen(URL, tenant="acme")


async def test_the_list_can_be_of_one_tenant(post: Post) -> None:
    acme = TenantId(new_id())
    await post.store.tenants.add(acme, "acme")
    ours, theirs = await post.listen(URL), await post.listen(URL, tenant="acme")

    assert [one.id for one in await post.store.webhooks.list()] == [ours.endpoint.id, theirs.endpoint.id]
    assert [(one.id, one.tenant) for one in await post.store.webhooks.list(acme)] == [(theirs.endpoint.id, "acme")]


async def test_an_endpoint_that_is_not_there_is_not_found(post: Post) -> None:
    for operation in (remove_endpoint, enable_endpoint, disable_endpoint):
        with pytest.raises(EndpointNotFound, match="cortex webhooks list"):
            await operation(post.store, new_id())
        with pytest.raises(InvalidInput, match="at least 4"):
            await operation(post.store, "0")


async def test_a_part_of_an_id_that_fits_two_is_refused(post: Post) -> None:
    first, second = await post.listen(URL), await post.listen(URL)
    common = next(
        first.endpoint.id[:length] for length in range(36, 3, -1) if second.endpoint.id.startswith(first.endpoint.id[:length])
    )
    with pytest.raises(InvalidInput, match="matches 2 webhook endpoints"):
        await remove_endpoint(post.store, common)


async def test_a_test_event_is_sent_whatever_the_endpoint_listens_to(post: Post, inbox: Receiver) -> None:
    added = await post.listen(inbox.url, events=["job.failed"], secret=SECRET)
    job_id = await send_test_event(post.store, Directory(post.store), post.clock, new_id, added.endpoint.id, actor="ada")
    await post.deliver()

    [message] = inbox.messages
    assert message.is_signed_with(SECRET)
    assert message.event["type"] == "webhook.test"
    assert message.event["data"] == {"endpoint_id": added.endpoint.id, "events": ["job.failed"]}
    assert (await post.job(job_id)).output == {"delivered": True, "status": 204}


async def test_a_disabled_endpoint_takes_no_test_event(post: Post) -> None:
    added = await post.listen(URL)
    await disable_endpoint(post.store, added.endpoint.id)

    with pytest.raises(Conflict, match="cortex webhooks enable"):
        await send_test_event(post.store, Directory(post.store), post.clock, new_id, added.endpoint.id)


async def test_only_deliveries_are_sent_again(post: Post) -> None:
    with pytest.raises(InvalidInput, match="not the delivery of a webhook"):
        await redeliver_webhook(post.store, new_id, await post.ended())


@pytest.mark.parametrize("change", ["enabled = false", "disabled_reason = 'x'", "events = '{}'", "url = ''"])
async def test_the_database_refuses_half_an_endpoint(post: Post, raw: Raw, change: str) -> None:
    await post.listen(URL)
    with pytest.raises(Refused):
        await raw(f"update cortex.webhook_endpoint set {change}")
