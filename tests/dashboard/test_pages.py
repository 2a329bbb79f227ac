"""Every page, with something to show and with nothing: it is drawn, leads only to places that are there, and asks nobody else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from httpx import Response
from starlette.routing import Match, Route

from cortex_plane import Context
from cortex_plane.http.routers import served_by
from cortex_plane.jobs.outcomes import Failed
from cortex_plane.schedules.model import ScheduleTerms
from cortex_plane.schedules.slots import coming
from cortex_plane.testing.clock import START
from tests.contract.support import FATAL, Scene
from tests.dashboard.conftest import Browser, Site

pytestmark = pytest.mark.anyio

PAGES = [
    "/",
    "/jobs",
    "/approvals",
    "/approvals?show=all",
    "/schedules",
    "/schedules/new",
    "/queues",
    "/queues/default",
    "/workers",
    "/gate",
    "/audit",
    "/access",
    "/tenants",
]


class Read(HTMLParser):
    """What a page refers to, and its forms."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.addresses: list[tuple[str, str]] = []
        self.forms: list[dict[str, str]] = []
        self.inline: list[str] = []
        self.feed(answer.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        for name in ("href", "src", "action", "hx-get", "hx-post", "data-follow"):
            if name in given:
                method = given.get("method", "get").upper() if name == "action" else "GET"
                self.addresses.append((method, given[name]))
        if tag == "form":
            self.forms.append({"method": given.get("method", "get"), "action": given.get("action", "")})
        if tag == "input" and self.forms and given.get("name") == "csrf_token":
            self.forms[-1]["csrf_token"] = given.get("value", "")
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        if (tag == "script" and "src" not in given) or tag == "style":
            self.inline.append(tag)


async def filled(site: Site) -> dict[str, str]:
    """Some of everything."""
    done, failed = await site.submit(word="one"), await site.submit("fail")
    asking = await site.submit("release", version="2")
    await site.plane.work()
    waiting, other = await site.submit(word="two"), await site.submit(word="three")
    await site.plane.queues.pause(queue="default", reason="repairs", actor="user:ada")
    await site.plane.gate.close("night", actor="user:ada")
    await site.plane.access.add_key("import", ["submitter"], tenant="default")
    [request] = await site.plane.store.approvals.list()
    schedule = await site.plane.schedules.add("nightly", "agent:echo", "0 3 * * *")
    return {
        "schedule": schedule.id,
        "done": done,
        "failed": failed,
        "asking": asking,
        "waiting": waiting,
        "other": other,
        "approval": request.id,
    }


def is_served(site: Site, method: str, path: str) -> bool:
    scope = {"type": "http", "path": path, "method": method, "root_path": "", "headers": []}
    return any(
        Route(route.path, lambda request: Response(200), methods=list(route.methods)).matches(scope)[0] is Match.FULL
        for route in served_by(site.app)
    )


def check(site: Site, answer: Response, path: str) -> None:
    assert answer.status_code == 200, (path, answer.text[:500])
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    read = Read(answer)
    assert not read.inline, path
    for method, address in read.addresses:
        parts = urlsplit(address)
        if address.startswith("#"):
            continue
        assert not parts.scheme + parts.netloc, (path, address)
        assert is_served(site, method, parts.path), (path, method, address)
    for form in read.forms:
        assert form["method"] == "get" or form.get("csrf_token"), (path, form)
    assert not re.search(r"https?://(?!www\.w3\.org/)", answer.text), path


async def test_every_page_is_drawn_when_there_is_nothing(site: Site, admin: Browser) -> None:
    for path in PAGES:
        check(site, await admin.get(path), path)


async def test_every_page_is_drawn_when_there_is_something(site: Site, admin: Browser) -> None:
    made = await filled(site)
    jobs = [f"/jobs/{made[name]}" for name in ("done", "failed", "asking", "waiting")]
    for path in [
        *PAGES,
        *jobs,
        f"/approvals/requests/{made['approval']}",
        f"/schedules/{made['schedule']}",
        "/jobs?status=FAILED",
        "/jobs?text=two",
        "/?tenant=default",
    ]:
        check(site, await admin.get(path), path)


async def test_what_people_wrote_is_never_taken_for_markup(site: Site, admin: Browser) -> None:
    job_id = await site.submit("fail")
    await site.plane.work()

    page = (await admin.get(f"/jobs/{job_id}")).text

    assert "it &lt;b&gt;broke&lt;/b&gt;" in page
    assert "<b>broke" not in page


async def test_the_step_that_failed_is_named(site: Site, admin: Browser) -> None:
    scene = Scene(site.plane.store, site.plane.clock)
    claimed = await scene.running()
    await scene.finish(claimed, Failed({"type": "StepFailed", "message": "no", "step": "pay#1"}, retryable=False))

    assert '<code data-testid="failed-step">pay#1</code>' in (await admin.get(f"/jobs/{claimed.job_id}")).text


async def test_the_traceback_of_a_failed_step_is_the_users_own(site: Site, admin: Browser) -> None:
    async def charge() -> None:
        raise ValueError("the <card>")

    @site.plane.agent("shop", max_retries=0)
    async def shop(ctx: Context) -> None:
        await ctx.step("charge", charge)

    job = await site.plane.submit("shop")
    await site.plane.work()

    page = (await admin.get(f"/jobs/{job.id}")).text
    traceback = page.partition('<details id="traceback">')[2].partition("</details>")[0]
    assert "in charge\n" in traceback
    assert "the &lt;card&gt;" in traceback
    assert "cortex_plane" not in traceback


async def test_a_job_that_failed_without_a_traceback_has_a_page_too(site: Site, admin: Browser) -> None:
    scene = Scene(site.plane.store, site.plane.clock)
    claimed = await scene.running()
    await scene.finish(claimed, FATAL)

    page = await admin.get(f"/jobs/{claimed.job_id}")

    assert page.status_code == 200
    assert "boom" in page.text


async def test_a_schedule_of_once_a_year_shows_no_slot_of_other_years(site: Site, admin: Browser) -> None:
    await site.plane.schedules.add("yearly", "agent:fail", "0 0 1 7 *")

    page = (await admin.get("/schedules")).text

    assert "yearly" in page
    assert coming(ScheduleTerms("agent:fail", "0 0 1 7 *"), START, 200, before=START.replace(year=2028)) == [
        START.replace(year=year, month=7, day=1, hour=0) for year in (2026, 2027)
    ]


async def test_secrets_are_hidden_on_the_page_of_a_job(site: Site, admin: Browser) -> None:
    job_id = await site.submit("release", version="2")
    await site.plane.work()

    page = (await admin.get(f"/jobs/{job_id}")).text

    assert "hush-hush" not in page
    assert "•••••• hidden" in page


async def test_the_page_of_a_job_says_why_it_waits_and_shows_its_steps_and_log(site: Site, admin: Browser) -> None:
    made = await filled(site)

    waiting, asking, done = [(await admin.get(f"/jobs/{made[name]}")).text for name in ("waiting", "asking", "done")]

    assert "The gate was closed by user:ada" in waiting
    assert 'data-code="gate_closed"' in waiting
    assert 'data-testid="steps"' in asking
    assert f"/approvals/requests/{made['approval']}" in asking
    assert "said" in done


async def test_a_search_finds_by_words_and_by_the_beginning_of_an_id(site: Site, admin: Browser) -> None:
    made = await filled(site)

    found = (await admin.get("/jobs?text=three")).text
    by_id = await admin.get(f"/jobs?text={made['other']}")
    wrong = await admin.get("/jobs?agent=nobody")

    assert made["other"] in found
    assert made["waiting"] not in found
    assert by_id.headers["location"] == f"/jobs/{made['other']}"
    assert "There is no agent" in wrong.text


async def test_a_list_is_continued_where_it_ended(site: Site, admin: Browser) -> None:
    ids = [await site.submit(word=str(number)) for number in range(60)]

    first = (await admin.get("/jobs")).text
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    second = (await admin.get(following[1])).text

    assert ids[-1] in first
    assert ids[0] not in first
    assert ids[0] in second


async def test_a_form_in_a_live_part_takes_over_nothing_of_that_part(site: Site, admin: Browser) -> None:
    """It would otherwise replace the whole page by the live part of the answer."""
    assert '"disableInheritance": true' in (await admin.get("/queues")).text


async def test_styles_and_scripts_are_kept_for_ever_under_an_address_of_their_own(site: Site, admin: Browser) -> None:
    page = (await admin.get("/")).text
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)

    answers = {address.rsplit("/", 1)[1]: await admin.get(address) for address in addresses}

    assert set(answers) == {"style.css", "htmx.min.js", "cortex.js", "icon.svg"}
    assert all("immutable" in answer.headers["cache-control"] for answer in answers.values())
    assert answers["htmx.min.js"].text.startswith("var htmx=")
    assert (await admin.get("/static/0000000000000000/style.css")).status_code == 404


async def test_a_request_that_nobody_can_decide_is_flagged_until_somebody_can(site: Site) -> None:
    @site.plane.agent("gate")
    async def gate(ctx: Context) -> None:
        await ctx.approval("Deploy 1.4.0")

    browser = await site.browser("operator")
    job_id = await site.submit("gate")
    await site.plane.work()
    [request] = await site.plane.approvals.list()
    pages = ("/approvals?show=all", f"/approvals/requests/{request.id}")

    flagged = [(await browser.get(path)).text for path in pages]
    await site.browser("approver", name="ben")
    mended = [(await browser.get(path)).text for path in pages]

    assert job_id in flagged[1]
    assert all('data-testid="undecidable"' in page and "no one can decide" in page for page in flagged)
    assert not any('data-testid="undecidable"' in page for page in mended)
