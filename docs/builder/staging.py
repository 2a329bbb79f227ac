"""Gathers the pages of the site in one folder: docs/, what stands at the root, and the reference that the code writes.

docs/**/*.md ─┐   (with docs/assets and docs/pictures)
*.md at root ─┼─▶ FOLDER/pages ─▶ zensical ─▶ FOLDER/site
the code ─────┘   FOLDER/mkdocs.yml (ours, without entries for pages that do not exist)
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from docs.builder.diagram import state_diagram
from docs.builder.reference import reference_pages

ROOT = Path(__file__).parents[2]

# Pages of the repository's root, and where they stand on the site.
FROM_ROOT = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}

BESIDE = ("assets", "pictures")

LINK = re.compile(r"\[([^\]\n]+)\]\(([^)\s]+)\)")
DIAGRAM = re.compile(r"<!-- states:begin -->.*?<!-- states:end -->", re.DOTALL)


def stage(folder: Path) -> dict[str, str]:
    """Writes everything that the site is built from; returns the pages by their path."""
    pages = site_pages()
    shutil.rmtree(folder / "pages", ignore_errors=True)
    for path, text in pages.items():
        target = folder / "pages" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for beside in BESIDE:
        shutil.copytree(ROOT / "docs" / beside, folder / "pages" / beside)
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(configuration(pages), sort_keys=False, allow_unicode=True))
    return pages


def site_pages() -> dict[str, str]:
    """By their path on the site. Links that lead out of the site become plain text."""
    origins = {path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / "docs").rglob("*.md"))}
    origins |= {name: ROOT / name for name in FROM_ROOT}
    generated = reference_pages() | {"decisions/index.md": _decisions()}
    pictures = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "pictures").glob("*.png")}
    known = {_place(origin) for origin in origins} | set(generated) | pictures
    written = {_place(origin): _translated(origin, path.read_text(), known) for origin, path in origins.items()}
    return written | generated


def configuration(pages: Mapping[str, str]) -> dict[str, Any]:
    """mkdocs.yml, with its navigation cut down to the pages that exist."""
    settings: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    return settings | {"docs_dir": "pages", "site_dir": "site", "nav": _existing(settings["nav"], pages)}


def _place(origin: str) -> str:
    return FROM_ROOT.get(origin) or origin.removeprefix("docs/")


def _translated(origin: str, text: str, known: set[str]) -> str:
    """The links of one page, as they must be on the site; its diagram of states drawn."""

    def link(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if "://" in target or target.startswith("#"):
            return match[0]
        path, _, anchor = target.partition("#")
        place = _place(posixpath.normpath(posixpath.join(posixpath.dirname(origin), path)))
        if place == "decisions":
            place = "decisions/index.md"
        if place not in known:
            return words
        relative = posixpath.relpath(place, posixpath.dirname(_place(origin)) or ".")
        return f"[{words}]({relative}{'#' + anchor if anchor else ''})"

    return DIAGRAM.sub(lambda _: state_diagram(), LINK.sub(link, text))


def _existing(entries: list[Any], pages: Mapping[str, str]) -> list[Any]:
    return list(_those_that_exist(entries, pages))


def _those_that_exist(entries: list[Any], pages: Mapping[str, str]) -> Iterator[Any]:
    for entry in entries:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            if inner := _existing(target, pages):
                yield {title: inner}
        elif target in pages:
            yield entry


def _decisions() -> str:
    """A list of the pages in docs/decisions, by number, so that a new one needs nothing else."""
    lines = [
        "# Decisions",
        "",
        "What was hard to decide, or would be hard to undo: the context, the choice, and what it cost.",
        "",
    ]
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        title = path.read_text().partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title.replace('. ', ' · ', 1)}]({path.name})")
    return "\n".join(lines) + "\n"
