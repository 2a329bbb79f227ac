"""`make house`: each figure is counted as its title says, on small source trees written for the purpose."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.house import __main__ as command
from tools.house.figures import files_that_name, measure, repeated_classes, single_protocols, small_modules
from tools.house.life import Life, trace
from tools.house.table import Row, draw, rows
from tools.house.tree import ROOT, SourceTree, commit_of, unpacked


def tree_of(folder: Path, files: dict[str, str]) -> SourceTree:
    for name, text in files.items():
        path = folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return SourceTree(folder / "src")


def test_files_and_lines_are_counted_without_what_is_generated(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {"p/a.py": "x = 1\ny = 2\n", "p/b.sql": "select 1;\n", "p/__pycache__/a.py": "x = 1\n", "p/htmx.min.js": "priority"},
    )

    figures = measure(tree)

    assert (figures.python_files, figures.sql_files, figures.lines) == (1, 1, 2)
    assert figures.field_files == {"priority": 0, "serial_key": 0, "run_timeout": 0}


def test_import_lines_are_those_of_every_import_but_the_one_for_the_compiler(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nimport os\nfrom os import (\n    path,\n)\ndef f():\n    import re\n    return re\n"
    )

    figures = measure(tree_of(tmp_path, {"p/a.py": text}))

    assert figures.import_share == 5 / 8


def test_functions_and_docstrings_are_measured_in_lines(tmp_path: Path) -> None:
    text = '"""Module."""\n@property\ndef two():\n    return 1\ndef five():\n    """First.\n\n    Last."""\n    return "text"\n'

    figures = measure(tree_of(tmp_path, {"p/a.py": text}))

    assert figures.median_function == (2 + 5) / 2
    assert figures.docstring_share == 4 / 9


def test_a_field_is_named_in_any_kind_of_file_with_its_unit_or_without(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        {
            "p/a.py": "run_timeout = 1",
            "p/b.sql": "select run_timeout_seconds",
            "p/c.html": "run_timeout",
            "p/d.py": "run_timeouts = 1",
        },
    )

    assert files_that_name(tree, "run_timeout") == 3


@pytest.mark.parametrize(
    "importing",
    [
        "import p.small",
        "from p import small",
        "from . import small",
        "from .small import x",
        "def f():\n    from p.small import x",
        'MODULES = {"x": "p.small"}',
        'COMMAND = "p.small:main"',
    ],
)
def test_a_small_module_with_one_importer_is_found_however_it_is_imported(tmp_path: Path, importing: str) -> None:
    tree = tree_of(tmp_path, {"p/__init__.py": "", "p/small.py": "x = 1\n", "p/user.py": importing})

    assert small_modules(tree) == ["p.small"]


@pytest.mark.parametrize(
    "others",
    [
        {"p/small.py": "x = 1\n" * 40, "p/user.py": "import p.small"},
        {"p/small.py": "x = 1\n"},
        {"p/small.py": "x = 1\n", "p/user.py": "import p.small", "p/other.py": "import p.small"},
        {"p/__init__.py": "", "p/user.py": "import p"},
    ],
    ids=["40 lines", "no importer", "two importers", "a package"],
)
def test_other_modules_are_not_small_modules_with_one_importer(tmp_path: Path, others: dict[str, str]) -> None:
    assert small_modules(tree_of(tmp_path, others)) == []


def test_a_class_name_that_is_defined_twice_is_found_wherever_it_stands(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, {"p/a.py": "class Twice: ...\nclass Once: ...\n", "p/q/b.py": "def f():\n    class Twice: ...\n"})

    assert repeated_classes(tree) == ["Twice"]


PROTOCOL = "from typing import Protocol\nclass Store(Protocol):\n    name: str\n    def get(self, key: str) -> str: ...\n"
IMPLEMENTATION = "class {name}:\n    name = 'x'\n    def get(self, {parameter}): ...\n"


def test_a_protocol_with_one_implementation_is_found_by_its_members(tmp_path: Path) -> None:
    files = {
        "p/ports.py": PROTOCOL,
        "p/one.py": IMPLEMENTATION.format(name="Sql", parameter="key"),
        "p/another.py": IMPLEMENTATION.format(name="Facade", parameter="job_id"),  # Its method only has the same name.
    }

    assert single_protocols(tree_of(tmp_path, files)) == ["Store"]


def test_a_class_that_inherits_from_another_class_of_that_name_is_no_implementation(tmp_path: Path) -> None:
    files = {
        "p/ports.py": PROTOCOL,
        "p/one.py": "from p.ports import Store\nclass Sql(Store): ...\n",
        "p/facade.py": "class Store: ...\n",
        "p/remote.py": "from p.facade import Store\nclass Remote(Store): ...\n",
    }

    assert single_protocols(tree_of(tmp_path, files)) == ["Store"]


def test_a_protocol_with_two_implementations_or_for_functions_is_fine(tmp_path: Path) -> None:
    files = {
        "p/ports.py": PROTOCOL + "class Callback(Protocol):\n    def __call__(self) -> None: ...\n",
        "p/one.py": IMPLEMENTATION.format(name="Sqlite", parameter="key"),
        "p/two.py": "class Postgres:\n    name = 'x'\n    def read(self, key): ...\n    find = get = read\n",
        "p/three.py": "class Called:\n    def __call__(self): ...\n",
    }

    assert single_protocols(tree_of(tmp_path, files)) == []


def test_a_goal_is_met_at_most_at_its_value_and_never_by_a_figure_that_is_missing() -> None:
    assert Row("", 6, goal=6).met is True
    assert Row("", 7, goal=6).met is False
    assert Row("", None, goal=6).met is False
    assert Row("", 7).met is None


def test_the_table_shows_both_versions_beside_the_goals(tmp_path: Path) -> None:
    figures = measure(tree_of(tmp_path, {"p/a.py": "import os\nx = os\n"}))

    both = draw(rows((figures, Life(["a"] * 50, 90)), (figures, None)), "abc1234").splitlines()
    alone = draw(rows((figures, None)), None).splitlines()

    assert both[0].split() == ["abc1234", "present", "goal"]
    assert both[1].split() == ["Python", "files", "in", "src", "1", "1", "≤", "230", "met"]
    assert both[4].split() == ["Share", "of", "import", "lines", "50.0%", "50.0%", "≤", "6.0%", "missed"]
    assert both[-2].split()[-5:] == ["-", "50", "≤", "45", "missed"]
    assert alone[0].split() == ["present", "goal"]


def test_a_job_s_life_crosses_files_of_the_present_tree() -> None:
    life = trace(ROOT / "src")

    assert life is not None
    assert 10 < len(life.files) < life.functions
    assert all((ROOT / "src" / file.lstrip("/")).is_file() for file in life.files)


def test_a_tree_that_cannot_run_has_no_life(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, {"cortex_plane/__init__.py": "import a_package_that_is_not_installed\n"})

    assert trace(tree.src) is None


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    tree_of(tmp_path, {"cortex_plane/__init__.py": "x = 1\n"})
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-qm", "First"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    tree_of(tmp_path, {"cortex_plane/__init__.py": "x = 1\ny = 2\n"})
    return tmp_path


def test_a_revision_is_read_from_git_and_not_from_the_working_tree(repository: Path) -> None:
    commit = commit_of("HEAD", repository)
    assert commit is not None

    with unpacked(commit, repository) as tree:
        assert measure(tree).lines == 1
        folder = tree.src
    assert not folder.exists()


def test_a_revision_that_the_history_does_not_have_is_said(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert commit_of("0123abc", repository) is None

    assert command.main(["no-such-revision"]) == 2
    assert "There is no commit no-such-revision here." in capsys.readouterr().err


@pytest.mark.parametrize(("lines", "code"), [(1, 0), (48_001, 1)])
def test_check_fails_where_a_goal_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lines: int, code: int
) -> None:
    tree_of(tmp_path, {"cortex_plane/__init__.py": "x = 1\n" * lines})
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "trace", lambda _: Life(["a"], 1))
    monkeypatch.setattr(command, "commit_of", lambda _: None)

    assert command.main(["--check", "--names"]) == code
    assert "Lines of Python" in capsys.readouterr().out
