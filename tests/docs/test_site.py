"""The site: every link leads somewhere, it is built without a warning, and its pages ask nobody else for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from docs.builder.staging import FROM_ROOT, LINK, configuration, site_pages, stage
from tests.docs.pages import ROOT, documents

needs_zensical = pytest.mark.skipif(find_spec("zensical") is None, reason="zensical is not installed: make setup")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """As `make docs` builds it; and what the builder said."""
    folder = tmp_path_factory.mktemp("docs")
    stage(folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(folder / "mkdocs.yml")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site", done.stdout + done.stderr


def test_links_between_documents_lead_somewhere() -> None:
    """In the repository, where the reference is not: it is written when the site is built."""
    generated = {ROOT / "docs" / path for path in site_pages()}

    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents()
        for _, target in LINK.findall(document.read_text())
        if "://" not in target and not target.startswith("#")
        for path in [(document.parent / target.partition("#")[0]).resolve()]
        if not path.exists() and path not in generated
    ]

    assert broken == []


def test_links_to_headings_lead_somewhere() -> None:
    pages = site_pages()

    broken = [
        f"{page}: {target}"
        for page, text in pages.items()
        for _, target in LINK.findall(text)
        if "#" in target and "://" not in target and not _has_heading(pages, page, target)
    ]

    assert broken == []


def _has_heading(pages: dict[str, str], page: str, target: str) -> bool:
    path, _, anchor = target.partition("#")
    place = Path("/", page).parent / path if path else Path("/", page)
    text = pages[str(Path("/", place).resolve()).lstrip("/")]
    return anchor in {_slug(heading) for heading in re.findall(r"(?m)^#+ (.*)$", text)}


def _slug(heading: str) -> str:
    plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[\s-]+", "-", plain)


def test_every_page_is_in_the_navigation() -> None:
    pages = site_pages()
    named = set(_targets(configuration(pages)["nav"]))

    one_by_one = {page for page in pages if not page.startswith("decisions/0")}

    assert one_by_one - named == set()


def _targets(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for target in entry.values():
            if isinstance(target, list):
                yield from _targets(target)
            else:
                yield target


def test_pages_of_the_root_are_on_the_site_with_their_links() -> None:
    pages = site_pages()

    assert set(FROM_ROOT.values()) <= set(pages)
    assert "](glossary.md)" in pages["contributing.md"]
    assert "bench/measuring.py" in pages["benchmarks.md"]
    assert "](../bench/measuring.py)" not in pages["benchmarks.md"]


@needs_zensical
def test_it_is_built_without_a_warning(site: tuple[Path, str]) -> None:
    folder, said = site

    assert "No issues found" in said
    assert (folder / "index.html").is_file()
    assert (folder / "reference" / "commands.html").is_file()


@needs_zensical
def test_the_built_pages_ask_nobody_else_for_anything(site: tuple[Path, str]) -> None:
    loading = re.compile(r'<(?:script|img|iframe|link|source)\b[^>]*?(?:src|href)="?(https?:)?//', re.IGNORECASE)

    asking = [page.name for page in site[0].rglob("*.html") if loading.search(page.read_text())]
    styles = [style.name for style in site[0].rglob("*.css") if re.search(r"url\(['\"]?(?:https?:)?//", style.read_text())]

    assert asking == []
    assert styles == []
    assert not any('class="mermaid"' in page.read_text() for page in site[0].rglob("*.html"))


@needs_zensical
def test_search_finds_what_is_on_the_pages_without_a_server(site: tuple[Path, str]) -> None:
    index = (site[0] / "search.json").read_text()

    assert "cortex_scaler" in index
    assert (site[0] / "search.js").is_file()  # The same for pages that are opened from a folder.


def test_make_docs_takes_the_same_steps() -> None:
    makefile = (ROOT / "Makefile").read_text()

    assert "python -m docs.builder build/docs\n" in makefile
    assert "zensical build --strict --config-file build/docs/mkdocs.yml\n" in makefile
