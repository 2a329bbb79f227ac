"""What is done on pages is done by the operations of the API, told afterwards, and refused without the page's token."""

from __future__ import annotations

import re

import pytest

from cortex_plane import Context
from cortex_plane.approvals import pages as routes_of_approvals
from cortex_plane.approvals.model import Notification
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import WorkerId
from cortex_plane.jobs.states import JobStatus
from cortex_plane.metrics.service import look_into_queue
from cortex_plane.people.users import find_user
from cortex_plane.queues.model import Scope
from cortex_plane.worker.model import NewWorker
from tests.dashboard.conftest import Browser, Site

pytestmark = pytest.mark.anyio


async def test_a_form_without_the_token_of_the_page_changes_nothing(site: Site, admin: Browser) -> None:
    job_id = await site.submit()

    without = await admin.client.post(f"/jobs/{job_id}/cancel", data={})
    wrong = await admin.client.post(f"/jobs/{job_id}/cancel", data={"csrf_token": "0" * 64})

    assert (without.status_code, wrong.status_code) == (403, 403)
    assert (await site.plane.jobs.get(job_id)).status is JobStatus.PENDING


async def test_a_job_is_submitted_cancelled_and_run_again(site: Site, admin: Browser) -> None:
    submitted = await admin.post("/jobs", agent="echo", payload='{"word": "hi"}')
    job_id = submitted.headers["location"].rsplit("/", 1)[1]

    said = await admin.note(await admin.post(f"/jobs/{job_id}/cancel", reason="a mistake"))
    again = await admin.post(f"/jobs/{job_id}/retry")
    twice = await admin.post(f"/jobs/{job_id}/cancel")

    assert said == "Cancelled."
    assert (await site.plane.jobs.get(job_id)).payload == {"word": "hi"}
    assert (await site.plane.jobs.history(job_id))[-1].actor == "user:ada"
    new = await site.plane.jobs.get(again.headers["location"].rsplit("/", 1)[1])
    assert new.retry_of == job_id
    assert "is already CANCELLED" in await admin.note(twice)


async def test_a_job_that_did_not_end_well_is_resumed_first_and_run_again_second(site: Site, admin: Browser) -> None:
    job_id = await site.submit()
    await site.plane.jobs.cancel(job_id)
    shown = (await admin.get(f"/jobs/{job_id}")).text

    answer = await admin.post(f"/jobs/{job_id}/resume")
    twice = await admin.note(await admin.post(f"/jobs/{job_id}/resume"))
    many = await admin.note(await admin.post("/jobs/many", action="resume", ids=[job_id]))

    assert shown.index(f'action="/jobs/{job_id}/resume"') < shown.index(f'action="/jobs/{job_id}/retry"')
    assert '<button class="primary">Resume</button>' in shown
    assert '<button class="">Run again from the beginning</button>' in shown
    new = await site.plane.jobs.get(answer.headers["location"].rsplit("/", 1)[1])
    assert new.retry_of == job_id
    assert new.id in twice
    assert many.startswith("Resumed 0 jobs. 1 could not be: ")


async def test_an_uncertain_call_is_settled_on_the_page_of_its_job(site: Site, admin: Browser) -> None:
    async def refund() -> dict[str, int]:
        raise TimeoutError("no answer")

    @site.plane.agent("shop", max_retries=0)
    async def shop(ctx: Context) -> object:
        return await ctx.tool("refund", refund)

    job = await shop.submit()
    await site.plane.work()
    shown = (await admin.get(f"/jobs/{job.id}")).text

    broken = await admin.note(await admin.post(f"/jobs/{job.id}/settle", call="refund", became="applied", result="{"))
    unknown = await admin.note(await admin.post(f"/jobs/{job.id}/settle", call="pay", became="not_applied"))
    answer = await admin.post(f"/jobs/{job.id}/settle", call="refund", became="applied", result='{"receipt": 7}')
    await site.plane.work()

    assert f'action="/jobs/{job.id}/settle"' in shown
    assert "TimeoutError: no answer" in shown
    assert "must be JSON" in broken
    assert "no uncertain call" in unknown
    new = await site.plane.jobs.get(answer.headers["location"].rsplit("/", 1)[1])
    assert (new.retry_of, new.output) == (job.id, {"receipt": 7})


@pytest.mark.parametrize("payload", ["[1]", "{", '"x"'])
async def test_a_payload_that_is_no_object_is_refused_in_words(site: Site, admin: Browser, payload: str) -> None:
    said = await admin.note(await admin.post("/jobs", agent="echo", payload=payload))

    assert said.startswith("The payload ")
    assert await site.plane.jobs.list() == []


async def test_many_jobs_are_cancelled_and_those_that_cannot_be_are_told(site: Site, admin: Browser) -> None:
    ended, *waiting = [await site.submit() for _ in range(3)]
    await site.plane.jobs.cancel(ended)

    said = await admin.note(await admin.post("/jobs/many", action="cancel", ids=[ended, *waiting]))
    nothing = await admin.note(await admin.post("/jobs/many", action="retry"))

    assert said.startswith("Cancelled 2 jobs. 1 could not be: ")
    assert {job.status for job in await site.plane.jobs.list()} == {JobStatus.CANCELLED}
    assert nothing == "No job was chosen. Tick those that you mean."


async def test_an_action_leads_only_to_addresses_of_ours(site: Site, admin: Browser) -> None:
    job_id = await site.submit()

    for back in ("https://example.com/", "//example.com", "/\\example.com", "javascript:alert(1)"):
        answer = await admin.post("/jobs/many", action="cancel", ids=[job_id], back=back)
        assert answer.headers["location"] == "/"


async def test_jobs_are_put_into_another_order(site: Site, admin: Browser) -> None:
    first, second, third = [await site.submit(word=str(number)) for number in range(3)]

    await admin.post(f"/jobs/{third}/move?tenant=default", place="before", anchor=first, back="/queues/default")
    page = (await admin.get("/queues/default")).text

    store = site.plane.store
    assert [entry.job_id for entry in await look_into_queue(store, "default", 10)] == [third, first, second]
    assert re.findall(r'data-job="([^"]+)"', page) == [third, first, second]


async def test_a_queue_is_paused_limited_shared_and_goes_on(site: Site, admin: Browser) -> None:
    store = site.plane.store

    await admin.post("/queues/default/pause", reason="repairs")
    await admin.post("/queues/default/limit", max_running="3")
    await admin.post("/queues/default/share", fair_share="true")
    paused = await store.controls.get(Scope.QUEUE, "default")
    wrong = await admin.note(await admin.post("/queues/default/limit", max_running="many"))
    await admin.post("/queues/default/resume")
    await admin.post("/queues/default/limit", max_running="")
    after = await store.controls.get(Scope.QUEUE, "default")

    assert (paused.paused, paused.pause_reason, paused.paused_by) == (True, "repairs", "user:ada")
    assert (paused.max_running, paused.fair_share) == (3, True)
    assert "must be a whole number" in wrong
    assert (after.paused, after.max_running) == (False, None)


async def test_the_gate_is_closed_with_a_reason_that_every_page_shows(site: Site, admin: Browser) -> None:
    await admin.post("/gate/close", reason="the model is down")
    closed = (await admin.get("/jobs")).text
    await admin.post("/gate/open")

    assert "The gate is closed." in closed
    assert "the model is down" in closed
    assert "The gate is closed." not in (await admin.get("/jobs")).text


async def test_an_approval_is_decided_with_changed_details(site: Site, admin: Browser) -> None:
    job_id = await site.submit("release", version="2")
    await site.plane.work()
    store = site.plane.store
    [request] = await store.approvals.list()

    broken = await admin.note(await admin.post(f"/approvals/requests/{request.id}/decide", decision="approved", edits="{"))
    said = await admin.note(
        await admin.post(f"/approvals/requests/{request.id}/decide", decision="approved", edits='{"image": "3"}', reason="fine")
    )
    late = await admin.note(await admin.post(f"/approvals/requests/{request.id}/decide", decision="denied"))

    decided = await store.approvals.get(request.id)
    assert decided is not None
    assert "not JSON" in broken
    assert said == "You approved it."
    assert (decided.details, decided.reason, decided.decided_by_name) == ({"image": "3"}, "fine", "ada")
    assert "already" in late
    await site.plane.work()
    assert (await site.plane.jobs.get(job_id)).status is JobStatus.COMPLETED


async def test_many_approvals_are_decided_at_once(site: Site, admin: Browser) -> None:
    jobs = [await site.submit("release", version=str(number)) for number in range(2)]
    await site.plane.work()
    store = site.plane.store
    ids: list[str] = [request.id for request in await store.approvals.list()]

    said = await admin.note(await admin.post("/approvals/requests/decide", decision="denied", ids=ids))

    assert said == "Decided 2."
    assert {(await site.plane.jobs.get(job)).status for job in jobs} == {JobStatus.FAILED}


async def test_one_that_is_not_there_does_not_keep_the_others_from_being_decided(site: Site, admin: Browser) -> None:
    job_id = await site.submit("release")
    await site.plane.work()
    [request] = await site.plane.store.approvals.list()

    said = await admin.note(await admin.post("/approvals/requests/decide", decision="denied", ids=[new_id(), request.id]))

    assert said.startswith("Decided 1. 1 could not be decided: There is no approval ")
    assert (await site.plane.jobs.get(job_id)).status is JobStatus.FAILED


async def test_whoever_is_asked_by_name_decides_without_a_role(site: Site) -> None:
    named = await site.browser(name="bob")
    job_id = await site.submit("ask", who="bob")
    await site.plane.work()
    [request] = await site.plane.store.approvals.list()

    home, inbox = await named.get("/"), await named.get("/approvals")
    said = await named.note(await named.post(f"/approvals/requests/{request.id}/decide", decision="approved"))

    assert home.headers["location"] == "/approvals"
    assert f"/approvals/requests/{request.id}/decide" in inbox.text
    assert said == "You approved it."
    await site.plane.work()
    assert (await site.plane.jobs.get(job_id)).status is JobStatus.COMPLETED


async def test_an_approver_decides_what_is_put_to_nobody_by_name_and_an_admin_does_not(site: Site) -> None:
    admin = await site.browser("admin")
    approver = await site.browser("approver", name="bob")
    await site.submit("release")
    await site.plane.work()
    [request] = await site.plane.store.approvals.list()

    refused = await admin.note(await admin.post(f"/approvals/requests/{request.id}/decide", decision="approved"))
    inboxes = [(await browser.get("/approvals")).text for browser in (admin, approver)]
    said = await approver.note(await approver.post(f"/approvals/requests/{request.id}/decide", decision="approved"))

    assert [f"/approvals/requests/{request.id}/decide" in inbox for inbox in inboxes] == [False, True]
    assert (refused, said) == ("You are not an approver of this request.", "You approved it.")


async def test_whoever_decides_is_shown_the_whole_of_it_and_who_was_told(site: Site, admin: Browser) -> None:
    looking = await site.browser("viewer", name="bob")
    await site.submit("ask", who="ada", api_key="hush-hush")
    await site.plane.work()
    store = site.plane.store
    [request] = await store.approvals.list()
    ada = await find_user(store, "ada")
    await store.approvals.record_notification(request.id, Notification(ada.id, "slack", "U1", None, error="it hangs"))
    pages = ("/approvals", f"/approvals/requests/{request.id}")

    shown = [(await admin.get(page)).text for page in pages]
    others = [(await looking.get(page)).text for page in pages]

    assert ["hush-hush" in page for page in shown] == [True, True]
    assert ["hush-hush" in page for page in others] == [False, False]
    assert "ada by slack" in shown[1]
    assert "it hangs" in shown[1]


async def test_what_others_are_asked_by_name_is_not_there_for_an_approver(site: Site) -> None:
    await site.browser(name="bob")
    approver = await site.browser("approver", tenant="default")
    await site.submit("ask", who="bob")
    await site.plane.work()
    [request] = await site.plane.store.approvals.list()
    page = f"/approvals/requests/{request.id}"

    seen, tried = await approver.get(page), await approver.post(f"{page}/decide", decision="approved")

    assert seen.status_code == 404
    assert "There is no approval" in await approver.note(tried)
    assert (await site.plane.approvals.get(request.id)).is_open
    assert 'class="badge"' not in (await approver.get("/approvals")).text


async def test_a_key_decides_on_a_page_only_if_it_was_made_for_that(site: Site) -> None:
    await site.browser("admin", name="bob")
    key = await site.plane.access.add_key("bob's", ["viewer"], tenant="default", user="bob")
    await site.submit("release")
    await site.plane.work()
    [request] = await site.plane.store.approvals.list()
    program = await site.stranger()

    headers = {"Authorization": f"Bearer {key.secret}"}
    await program.post(f"/approvals/requests/{request.id}/decide", data={"decision": "approved"}, headers=headers)

    assert (await site.plane.approvals.get(request.id)).is_open


async def test_an_approval_is_decided_on_its_page_however_many_newer_ones_wait(
    site: Site, admin: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_of_approvals, "SHOWN", 1)
    for _ in range(3):
        await site.submit("release")
    await site.plane.work()
    requests = await site.plane.store.approvals.list()

    pages = [await admin.get(f"/approvals/requests/{request.id}") for request in requests]

    assert ["/decide" in page.text for page in pages] == [True, True, True]


async def test_a_key_is_shown_once_and_revoked(site: Site, admin: Browser) -> None:
    added = await admin.post("/keys", name="import", roles=["viewer", "submitter"], days="2")
    [key] = await site.plane.access.keys()
    page = (await admin.get("/access")).text
    said = await admin.note(await admin.post(f"/keys/{key.id}/revoke"))

    assert added.status_code == 201
    secret = re.search(r"ctx_[\w-]{40,}", added.text)
    assert secret is not None
    assert secret[0] not in page
    assert said == "Key import no longer works."
    assert (await admin.post("/keys", name="nothing")).status_code == 422


async def test_an_admin_of_all_tenants_sees_and_revokes_keys_that_work_in_all(site: Site, admin: Browser) -> None:
    added = await site.plane.access.add_key("import", ["viewer"])

    page = (await admin.get("/access")).text
    said = await admin.note(await admin.post(f"/keys/{added.key.id}/revoke"))

    assert added.key.prefix in page
    assert "in all tenants" in page
    assert said == "Key import no longer works."


async def test_people_tenants_and_agents_are_looked_after(site: Site, admin: Browser) -> None:
    await admin.get("/")  # The agents are written down when the plane is first used.
    said = [
        await admin.note(await admin.post("/users", name="bob", password="correct horse battery", role="viewer")),
        await admin.note(await admin.post("/users/roles", name="bob", role="operator", change="give", tenant="default")),
        await admin.note(await admin.post("/users/roles", name="bob", role="viewer", change="take")),
        await admin.note(await admin.post("/tenants", name="acme")),
        await admin.note(await admin.post("/tenants/acme/pause", reason="unpaid")),
        await admin.note(await admin.post("/tenants/acme/resume")),
        await admin.note(await admin.post("/agents/echo/pause")),
        await admin.note(await admin.post("/agents/echo/resume")),
        await admin.note(await admin.post("/audit/verify")),
    ]

    assert said[:3] == [
        "bob can sign in, as viewer in all tenants.",
        "bob is now operator in tenant &#34;default&#34;.",
        "bob is no longer viewer in all tenants.",
    ]
    assert said[4] == "Tenant &#34;acme&#34; is paused: nothing more of it starts."
    assert said[8].startswith("Nobody changed what was recorded")
    assert [str(given.role) for given in (await site.plane.access.user("bob")).given] == ["operator"]


async def test_a_schedule_is_paused_run_by_hand_and_filled_up(site: Site, admin: Browser) -> None:
    schedule = await site.plane.schedules.add("hourly", "agent:echo", "0 * * * *")
    here = f"/schedules/{schedule.id}"

    paused = await admin.note(await admin.post(f"{here}/pause", reason="holidays"))
    stopped = await site.plane.schedules.get(schedule.id)
    said = [
        await admin.note(await admin.post(f"{here}/resume")),
        await admin.note(await admin.post(f"{here}/trigger")),
        await admin.note(await admin.post(f"{here}/backfill", start="2026-01-01T00:00", end="soon")),
    ]

    assert paused == "hourly is paused: no slot of it starts."
    assert (stopped.enabled, stopped.paused_by, stopped.pause_reason) == (False, "user:ada", "holidays")
    assert said[:2] == ["hourly goes on.", "One slot more starts now."]
    assert "end must be a time" in said[2]
    assert [slot.origin for slot in await site.plane.schedules.slots(schedule.id)] == ["manual"]
    assert "manual" in (await admin.get(here)).text


async def test_without_a_workshop_no_worker_can_be_killed(site: Site, admin: Browser) -> None:
    assert (await admin.post("/workers/kill", name="somebody")).status_code == 404


async def test_a_worker_is_drained_by_an_operator_and_shown_as_such(site: Site, admin: Browser) -> None:
    worker_id = WorkerId(new_id())
    await site.plane.store.workers.register(NewWorker(worker_id, "host:1", ("default",), ("echo",), 5))
    offered = (await admin.get("/workers")).text
    viewer = await site.browser("viewer", name="ben")

    said = await admin.note(await admin.post("/workers/drain", worker_id=worker_id, reason="a new machine"))
    again = await admin.note(await admin.post("/workers/drain", worker_id=worker_id))
    refused = await viewer.post("/workers/drain", worker_id=worker_id)
    page = (await admin.get("/workers")).text

    assert 'action="/workers/drain"' in offered
    assert (said, again) == ("Asked it to finish what it has, and to leave.", "It was asked already.")
    assert refused.status_code == 403
    assert "/workers/drain" not in (await viewer.get("/workers")).text
    assert "Draining" in page
    assert "user:ada asked for it" in page
    assert 'action="/workers/drain"' not in page


async def test_after_an_action_one_is_still_in_the_tenant_that_was_chosen(site: Site, admin: Browser) -> None:
    await site.plane.tenants.add("acme")
    schedule = await site.plane.schedules.add("hourly", "agent:echo", "0 * * * *", tenant="acme")

    answer = await admin.post(f"/schedules/{schedule.id}/pause?tenant=acme", reason="later")

    assert answer.headers["location"] == f"/schedules/{schedule.id}?tenant=acme"
    assert await admin.note(answer) == "hourly is paused: no slot of it starts."


async def test_an_address_that_names_a_tenant_keeps_it(site: Site, admin: Browser) -> None:
    job_id = await site.submit()

    answer = await admin.post(f"/jobs/{job_id}/move?tenant=default", place="front", back="/queues/default?tenant=acme")

    assert answer.headers["location"] == "/queues/default?tenant=acme"


async def test_a_held_job_says_so_and_is_released(site: Site, admin: Browser) -> None:
    async def work() -> None:
        pass

    async def begin(ctx: Context) -> None:
        await ctx.tool("deploy", work)
        await ctx.sleep(60)

    async def changed(ctx: Context) -> None:
        await ctx.tool("scan", work)
        await ctx.tool("deploy", work)

    plane = site.plane
    job_id = (await plane.agent("bot")(begin).submit()).id
    await plane.work()
    plane.agents.pop("bot")
    plane.agent("bot")(changed)
    await plane.clock.advance(seconds=61)
    await plane.work()

    shown = (await admin.get(f"/jobs/{job_id}")).text
    listed = (await admin.get("/jobs")).text
    said = await admin.note(await admin.post(f"/jobs/{job_id}/release"))
    await plane.work()

    assert f'action="/jobs/{job_id}/release"' in shown
    assert "held: its record does not fit the code" in listed
    assert "The next worker with its agent tries it." in said
    assert len(await plane.jobs.runs(job_id)) == 3
