"""Every regular expression in the package is linear in the text that it is given, however that text was made."""

from __future__ import annotations

import ast
import importlib
import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cortex_plane
from tests.hostile import grows_faster_than_its_text, hostile_texts

PACKAGE = Path(cortex_plane.__file__).parent
DIRECT = ("sub", "search", "match", "fullmatch", "findall", "finditer", "split")
MOST_TEXTS = None if os.environ.get("CORTEX_SECURITY") else 25
"""For each pattern. `make security` tries all."""
NOT_FOREIGN = {
    "settings.py": "matched against settings of the installation",
    "approvals/decisions.py": "the pattern is the developer's own",
    "schedules/cron/parse.py": "one word of a cron rule, whose length is limited before",
}
"""Where a pattern is not a literal."""

BY_PARAMETER = {
    "NAME_IN_JSON": {"finditer"},
    "NAME_OF_SETTING": {"finditer"},
    "VALUE_IN_JSON": {"match"},
    "VALUE_OF_SETTING": {"match"},
}
"""Patterns that a function is given, and how it applies them."""


class Used:
    """A pattern and the method by which it is applied."""

    def __init__(self, where: str, pattern: re.Pattern[str], method: str) -> None:
        self.where, self.pattern, self.method = where, pattern, method

    def apply(self, text: str) -> Any:
        if self.method == "sub":
            return self.pattern.sub("", text)
        found = getattr(self.pattern, self.method)(text)
        return list(found) if self.method == "finditer" else found


def test_text_made_to_hurt_finds_a_pattern_that_is_not_linear() -> None:
    """What this file relies on: two that did hurt, and one like them."""
    cubic = r"(\b[\w-]*(?:passw|token|secret)[\w-]*\s*=\s*)[^\s,;&]+"
    quadratic = r"(?P<user>://[^/\s:@]*:)[^\s@]+(?=@)"

    for pattern in (cubic, quadratic, r" +(?=\n)"):
        assert _troubles(Used("here", re.compile(pattern), "search"), 25), pattern


def _places() -> list[Used]:
    return [used for path in sorted(PACKAGE.rglob("*.py")) for used in _used_in(path)]


def _used_in(path: Path) -> Iterator[Used]:
    tree = ast.parse(path.read_text())
    where = str(path.relative_to(PACKAGE))
    methods = _methods_by_name(path.read_text())
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_re(node.func.value)):
            continue
        if node.func.attr in DIRECT:
            if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                yield Used(f"{where}:{node.lineno}", re.compile(node.args[0].value), node.func.attr)
            else:
                assert where in NOT_FOREIGN, f"{where}:{node.lineno} applies a pattern that is not a literal"
        elif node.func.attr == "compile":
            name = _assigned_name(tree, node)
            if name is None:
                assert where in NOT_FOREIGN, f"{where}:{node.lineno} makes a pattern without a name"
                continue
            pattern = getattr(importlib.import_module(_module(path)), name)
            applied = methods.get(name, set()) | _elsewhere(name, path) | BY_PARAMETER.get(name, set())
            for method in sorted(applied) or ["search"]:
                yield Used(f"{where}:{node.lineno} {name}", pattern, method)


def _is_re(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "re"


def _assigned_name(tree: ast.Module, call: ast.Call) -> str | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.value is call and isinstance(node.targets[0], ast.Name):
            return node.targets[0].id
    return None


def _methods_by_name(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, method in re.findall(rf"\b([A-Z_]{{2,}})\.({'|'.join(DIRECT)})\(", text):
        found.setdefault(name, set()).add(method)
    return found


def _elsewhere(name: str, path: Path) -> set[str]:
    """How other modules apply it, if they import it from here."""
    importing = re.compile(rf"from {re.escape(_module(path))} import [^\n]*(?:\([^)]*)?\b{name}\b")
    texts = (other.read_text() for other in PACKAGE.rglob("*.py") if other != path)
    return {method for text in texts if importing.search(text) for method in _methods_by_name(text).get(name, ())}


def _module(path: Path) -> str:
    return ".".join(("cortex_plane", *path.relative_to(PACKAGE).with_suffix("").parts))


def _troubles(used: Used, most: int | None = None, tried: Callable[[], object] = lambda: None) -> list[str]:
    for said, make in hostile_texts(used.pattern.pattern, used.pattern.flags, most):
        tried()
        if slow := grows_faster_than_its_text(used.apply, make):
            return [f"{used.where}, by {used.method} on {said}: {slow}"]
    return []


PLACES = _places()


@pytest.mark.parametrize("used", PLACES, ids=lambda used: f"{used.where} {used.method}")
def test_every_pattern_is_linear_in_its_text(used: Used, record_property: Callable[[str, object], None]) -> None:
    count = itertools.count()

    assert not _troubles(used, MOST_TEXTS, lambda: next(count))
    record_property("tried", next(count))


def test_all_patterns_of_the_package_were_found() -> None:
    lines = sum(len(re.findall(r"\bre\.compile\(", path.read_text())) for path in PACKAGE.rglob("*.py"))

    assert len({used.where for used in PLACES if used.where.count(" ")}) >= lines - len(NOT_FOREIGN)
