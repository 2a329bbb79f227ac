"""`cortex audit`: what was done, and whether the record of it is untouched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cortex_plane import Plane
from cortex_plane.audit import cli as audit
from cortex_plane.audit.cli import MOST_FINDINGS, sentence
from cortex_plane.audit.model import FindingKind, SealFinding
from cortex_plane.audit.sealer import Sealer
from cortex_plane.audit.service import AuditLog
from cortex_plane.errors import DatabaseConfigError, InvalidInput
from cortex_plane.retention import cli as retention
from cortex_plane.testing import ManualClock
from tests.contract.support import raw_client
from tests.contract.test_repair import triggers_off

RunIn = Callable[..., Any]
Run = Callable[[Coroutine[Any, Any, int]], tuple[int, str]]


@pytest.fixture
def run(cortex: object, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command's function; its exit code, and what it printed."""

    def run(command: Coroutine[Any, Any, int]) -> tuple[int, str]:
        capsys.readouterr()
        code = asyncio.run(command)
        out, err = capsys.readouterr()
        assert err == ""
        return code, out

    return run


@pytest.fixture
def url(database_url: str, run_in: RunIn) -> str:
    async def fill(plane: Plane) -> None:
        record = AuditLog(plane).record
        await record("GATE_CLOSED", "gate", "gate", actor="cli:ada", reason="maintenance")
        await record("GATE_OPENED", "gate", "gate", actor="cli:ada")
        await record("JOB_MOVED", "job", "7", actor="cli:eve", details={"place": "front"})
        sealer = Sealer(plane.store)
        await sealer.once()
        await sealer.once()
        await record("LOGIN", "user", "\x1b[31mmallory")

    run_in(database_url, fill)
    return database_url


def corrupt(url: str, *statements: str) -> None:
    async def work() -> None:
        async with raw_client(url, ManualClock()) as raw, triggers_off(raw):
            for statement in statements:
                await raw(statement)

    asyncio.run(work())


def test_entries_are_listed_newest_first(run: Run, url: str) -> None:
    code, out = run(audit.list_entries(plane_url=url))

    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["NUMBER", "4", "3", "2", "1"]
    assert out.splitlines()[0].split() == ["NUMBER", "TIME", "ACTION", "BY", "OBJECT"]
    assert "\x1b" not in out
    assert "user \\x1b[31mmallory" in out
    assert 'job 7                 {"place":"front"}' in out
    assert out.splitlines()[-1].endswith("UTC  GATE_CLOSED  cli:ada  gate gate             maintenance")
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"object_id": "gate"}, [2, 1]),
        ({"actor": "cli:eve"}, [3]),
        ({"action": "gate-closed"}, [1]),
        ({"actor": "cli:ada", "action": "GATE_OPENED"}, [2]),
        ({"limit": 2}, [4, 3]),
        ({"limit": 2, "before": 3}, [2, 1]),
        ({"actor": "nobody"}, []),
    ],
    ids=str,
)
def test_filters_and_pages(run: Run, url: str, filters: dict[str, Any], found: list[int]) -> None:
    _, out = run(audit.list_entries(**filters, plane_url=url, as_json=True))

    document = json.loads(out)
    assert [entry["seq"] for entry in document["entries"]] == found
    assert document["next_before"] == (found[-1] if filters.get("limit") and found[-1] > 1 else None)


def test_a_full_page_says_how_to_go_on_with_the_same_filters(run: Run, url: str) -> None:
    _, out = run(audit.list_entries(actor="cli:ada", limit=1, plane_url=url))

    assert out.endswith(f"There are more:  cortex audit list --actor cli:ada --before 2 --database-url {url}\n")


def test_a_list_without_entries_says_so(run: Run, url: str) -> None:
    assert run(audit.list_entries(actor="nobody", plane_url=url)) == (0, "No entry fits.\n")


def test_an_empty_log_says_so(run: Run, run_in: RunIn, database_url: str) -> None:
    async def nothing(plane: Plane) -> None: ...

    run_in(database_url, nothing)

    assert run(audit.list_entries(plane_url=database_url)) == (0, "Nothing has been recorded yet.\n")
    assert run(audit.verify(plane_url=database_url))[0] == 0


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_limit_out_of_range_is_refused(run: Run, limit: int) -> None:
    with pytest.raises(InvalidInput, match="--limit must be from 1 to 1000"):
        run(audit.list_entries(limit=limit))


def test_looking_makes_no_database(run: Run) -> None:
    for command in (audit.list_entries(), audit.verify()):
        with pytest.raises(DatabaseConfigError, match="There is no database file"):
            run(command)


def test_an_untouched_log_is_exit_code_0(run: Run, url: str) -> None:
    code, out = run(audit.verify(plane_url=url))
    first, second, third = out.splitlines()

    assert code == 0
    assert first == "3 entries in 1 seal; 1 newer one waits to be sealed."
    assert second == "Nothing was changed since it was sealed."
    assert third.startswith("To find a cut-off end too, keep this:  cortex audit verify --seal 1:")


def test_findings_are_exit_code_1_and_a_table(run: Run, url: str) -> None:
    corrupt(
        url, "update cortex.audit_log set actor = 'nobody' where seq = 1", "delete from cortex.audit_log where object_id = '7'"
    )

    code, out = run(audit.verify(plane_url=url))
    assert code == 1
    assert (
        out
        == """\
3 entries in 1 seal; 1 newer one waits to be sealed.

2 things do not fit:
SEAL  ENTRY  WHAT
   1      1  The entry was changed after it was sealed.
   1      3  The entry was removed after it was sealed.
"""
    )


def test_findings_as_json(run: Run, url: str) -> None:
    corrupt(url, "update cortex.audit_log set actor = 'nobody' where seq = 1")

    code, out = run(audit.verify(plane_url=url, as_json=True))
    document = json.loads(out)
    assert code == 1
    assert document.pop("last_seal").startswith("1:")
    assert document == {
        "sound": False,
        "seals": 1,
        "sealed": 3,
        "unsealed": 1,
        "pruned": None,
        "findings": [{"kind": "entry_changed", "seal": 1, "seq": 1, "was_seq": None, "last_seal": None}],
    }


def test_what_a_rule_has_pruned_is_told_and_is_no_finding(run: Run, url: str) -> None:
    run(retention.add("0", record="audit-log", plane_url=url))
    run(retention.run(plane_url=url))

    code, out = run(audit.verify(plane_url=url))
    told, pruned, sound, _ = out.splitlines()
    document = json.loads(run(audit.verify(plane_url=url, as_json=True))[1])

    assert code == 0
    assert told == "0 entries in 0 seals; 3 newer ones wait to be sealed."
    assert pruned.startswith("3 older ones were pruned by a retention rule, up to seal 1, last at ")
    assert sound == "Nothing was changed since it was sealed."
    assert (document["pruned"]["entries"], document["pruned"]["last_seal"]) == (3, document["last_seal"])


def test_a_cut_off_end_is_found_by_the_seal_that_was_kept(run: Run, url: str) -> None:
    kept = json.loads(run(audit.verify(plane_url=url, as_json=True))[1])["last_seal"]
    assert run(audit.verify(seal=kept, plane_url=url))[0] == 0
    corrupt(url, "delete from cortex.audit_seal", "delete from cortex.audit_log")

    assert run(audit.verify(plane_url=url))[0] == 0
    code, out = run(audit.verify(seal=kept, plane_url=url))
    assert code == 1
    assert "   1      -  The seal is missing.\n" in out


def test_very_many_findings_are_cut(run: Run, database_url: str, run_in: RunIn) -> None:
    async def fill(plane: Plane) -> None:
        for _ in range(MOST_FINDINGS + 5):
            await AuditLog(plane).record("DONE", "job", "1")
        sealer = Sealer(plane.store)
        await sealer.once()
        await sealer.once()

    run_in(database_url, fill)
    corrupt(database_url, "delete from cortex.audit_log")

    _, out = run(audit.verify(plane_url=database_url))
    assert out.endswith("… and 5 more; --json shows all.\n")
    assert len(out.splitlines()) == MOST_FINDINGS + 5
    _, out = run(audit.verify(plane_url=database_url, as_json=True))
    assert len(json.loads(out)["findings"]) == MOST_FINDINGS + 5


@pytest.mark.parametrize("kind", FindingKind)
def test_every_finding_has_its_sentence(kind: FindingKind) -> None:
    assert sentence(SealFinding(kind, 1, 2, 3)).endswith(".")


def test_several_missing_seals_are_one_sentence() -> None:
    assert sentence(SealFinding(FindingKind.SEAL_MISSING, 2, last_seal=2)) == "The seal is missing."
    assert sentence(SealFinding(FindingKind.SEAL_MISSING, 2, last_seal=9)) == "The seals up to 9 are missing."
