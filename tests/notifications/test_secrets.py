"""A token exists in the message to its addressee, and nowhere else."""

from __future__ import annotations

import logging

import pytest
import structlog

from cortex_plane import JobStatus
from cortex_plane.approvals.decisions import Decided
from tests.adapters.channels.server import raw as answer
from tests.contract.support import Raw
from tests.notifications.office import ALL, TOKEN, Office

pytestmark = pytest.mark.anyio

COLUMNS = {
    "sqlite": (
        "select m.name, c.name from sqlite_master m join pragma_table_info(m.name) c "
        "where m.type = 'table' and m.name not like 'sqlite_%'"
    ),
    "postgres": (
        "select table_schema || '.' || table_name, column_name from information_schema.columns "
        "where table_schema not in ('pg_catalog', 'information_schema')"
    ),
}


async def everything_in(raw: Raw) -> dict[str, str]:
    """All values of all columns of all tables, as text; what is stored as bytes too."""
    found: dict[str, str] = {}
    for table, column in await raw(COLUMNS[raw.kind]):
        rows = await raw(f'select "{column}" from {table} where "{column}" is not null')
        found[f"{table}.{column}"] = "\n".join(_text(row[0]) for row in rows)
    return found


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@pytest.mark.parametrize("ending", ["approved", "denied", "expired"])
async def test_no_token_is_in_the_database_or_in_the_log(
    office: Office, raw: Raw, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await office.person("alice", *ALL)
    await office.person("boss", "email")
    office.services.telegram.instead.append(answer(500, b"oops"))
    office.services.slack.instead.append(answer(403, b"{}"))
    with structlog.testing.capture_logs() as lines:
        job = await office.asked("alice", ttl=7200, remind=600, escalate={"to": "boss", "after": 1200})
        for _ in range(3):
            await office.clock.advance(seconds=600)
            await office.plane.work()
        if ending == "expired":
            await office.clock.advance(hours=2)
            await office.plane.work()
        else:
            assert isinstance(await office.click("webhook", "approved" if ending == "approved" else "denied"), Decided)

    assert await job.status() in (JobStatus.COMPLETED, JobStatus.FAILED)
    sent = [token for service in ALL for token in office.services.tokens(service)]
    assert len(sent) > 10
    stored = await everything_in(raw)
    assert "Deploy 1.4.0 to production" in stored[_column(raw)]
    assert [place for place, text in stored.items() if TOKEN.search(text)] == []
    assert [place for place, text in stored.items() if "cortex_apr_1_" in text] == []
    assert not TOKEN.search(str(lines) + caplog.text)


def _column(raw: Raw) -> str:
    """Where a text of the story surely is: the search does look."""
    return "approval_request.action_summary" if raw.kind == "sqlite" else "cortex.approval_request.action_summary"


async def test_hashes_of_tokens_are_in_their_own_table_alone(office: Office, raw: Raw) -> None:
    await office.person("alice", *ALL)
    await office.asked("alice")
    await office.click("slack")
    hashes = [str(row[0]) for row in await raw("select token_hash from cortex.approval_token")]
    assert len(hashes) == len(ALL)

    stored = await everything_in(raw)

    places = {place.removeprefix("cortex.") for place, text in stored.items() if any(one in text for one in hashes)}
    assert places == {"approval_token.token_hash"}
