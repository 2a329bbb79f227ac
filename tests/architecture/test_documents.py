"""What is written down is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cortex_plane.jobs.states import TRANSITIONS, JobStatus, mermaid
from cortex_plane.storage.postgres.schema import FOLDER as POSTGRES
from cortex_plane.storage.sqlite.schema import FOLDER as SQLITE

ROOT = Path(__file__).parents[2]
ONE_SCREEN = 60


def test_the_diagram_in_the_architecture_is_the_table_in_core() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()

    shown = text.partition("<!-- states:begin -->\n```mermaid\n")[2].partition("\n```\n<!-- states:end -->")[0]

    assert shown == mermaid()


@pytest.mark.parametrize("folder", [POSTGRES, SQLITE], ids=["postgres", "sqlite"])
def test_the_transition_trigger_lists_exactly_the_transitions_of_core(folder: Path) -> None:
    sql = (folder / "schema.sql").read_text()
    trigger = sql.partition("create trigger job_transition")[2].partition("begin" if folder == SQLITE else "execute")[0]
    if folder == SQLITE:
        found = re.findall(r"old\.status = '(\w+)'\s+and \(([^)]*)\)", trigger)
        listed = [(before, re.findall(r"new\.status = '(\w+)'", rest)) for before, rest in found]
    else:
        listed = [(before, rest.split(", ")) for before, rest in re.findall(r"when '(\w+)' then '\{([\w, ]+)\}'", trigger)]
    allowed = {(before, after) for before, afters in listed for after in afters}

    assert allowed == {(before, after) for before in JobStatus for after in TRANSITIONS[before]}


def test_the_readme_fits_on_one_screen_and_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()

    assert len(text.splitlines()) <= ONE_SCREEN
    assert "make demo" in text
    assert "make test" in text


@pytest.mark.parametrize("path", sorted(ROOT.glob("requirements*.lock")), ids=lambda path: path.name)
def test_locks_are_hashed_and_name_no_host(path: Path) -> None:
    text = path.read_text()

    assert "://" not in text
    assert "--hash=sha256:" in text


def test_no_document_holds_what_a_merge_left_behind() -> None:
    marker = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    documents = [
        path for folder in (ROOT / "docs", ROOT / "deploy") for path in folder.rglob("*.*") if path.suffix in (".md", ".yaml")
    ]

    assert [path.name for path in [*ROOT.glob("*.md"), *documents] if marker.search(path.read_text())] == []
