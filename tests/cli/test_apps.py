"""APP is file.py, file.py:plane, module:plane or module; whatever is wrong with it is said plainly."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_plane import Plane
from cortex_plane.cli.planes import load_app
from tests.cli.conftest import Cortex, Result

APP = """
from cortex_plane import Plane

plane = Plane()
other = Plane("sqlite:///other.db")
number = 3


@plane.agent("greet")
async def greet(ctx, name="world"):
    return f"Hello, {name}!"
"""


def load(cortex: Cortex, app: str) -> Result:
    return cortex("worker", app, "--until-idle")


@pytest.mark.parametrize("app", ["app.py", "./app.py", "app.py:plane", "app:plane", "app", "shop/agents.py", "shop.agents:plane"])
def test_an_app_is_found_by_file_and_by_module(cortex: Cortex, folder: Path, app: str) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").write_text("")
    (folder / "shop" / "agents.py").write_text(f"from .names import NAME\n{APP}")
    (folder / "shop" / "names.py").write_text("NAME = 'shop'")
    (folder / "app.py").write_text(APP)

    result = load(cortex, app)

    assert result.code == 0, result.err
    assert "  agents    greet\n" in result.err


def test_the_default_app_comes_from_the_settings(cortex: Cortex, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "app.py").write_text(APP)
    monkeypatch.setenv("CORTEX_APP", "app.py")

    assert cortex("worker", "--until-idle").code == 0


def test_a_file_may_import_its_neighbours(cortex: Cortex, folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib" / "app.py").write_text(f"import neighbour_of_app\n{APP}")
    (folder / "lib" / "neighbour_of_app.py").write_text("")

    assert load(cortex, "lib/app.py").code == 0


def test_a_file_named_like_a_library_does_not_replace_it(cortex: Cortex, folder: Path) -> None:
    import queue

    (folder / "queue.py").write_text(APP)

    assert load(cortex, "queue.py").code == 0
    assert __import__("queue") is queue


def test_the_database_that_was_asked_for_is_used(cortex: Cortex, folder: Path) -> None:
    (folder / "app.py").write_text(APP)

    plane = load_app("app.py", "sqlite:///asked.db")

    assert isinstance(plane, Plane)
    assert plane.settings.database_url == "sqlite:///asked.db"
    assert load_app("app.py:other").settings.database_url == "sqlite:///other.db"


@pytest.mark.parametrize(
    ("app", "code", "message"),
    [
        ("ap.py", 3, 'There is no file ap.py. Did you mean "app.py"? You are in <here>.'),
        ("zebra.py", 3, "There is no file zebra.py. In that folder there are: app.py, plain.py. You are in <here>."),
        ("nowhere/app.py", 3, "There is no file nowhere/app.py, and no folder nowhere either. You are in <here>."),
        ("./", 3, ". is a folder. Name the file with your plane, such as app.py."),
        ("./notes.txt", 2, "notes.txt is not a Python file. An app is file.py, file.py:plane or module:plane."),
        (
            "ap:plane",
            3,
            (
                'There is no module "ap". Did you mean "app"? '
                "To name a file instead, write its path with .py at the end. You are in <here>."
            ),
        ),
        ("app.py:plan", 3, "app.py has no \"plan\". Its plane is named 'plane': write app.py:plane"),
        ("app.py:number", 2, "app.py:number is of type int, not a Plane. Its plane is named 'plane': write app.py:plane"),
        ("plain.py", 3, 'plain.py has no "plane". It has no plane. Add one: plane = Plane()'),
    ],
)
def test_a_wrong_app_is_named_with_what_was_probably_meant(
    cortex: Cortex, folder: Path, app: str, code: int, message: str
) -> None:
    (folder / "app.py").write_text(APP)
    (folder / "plain.py").write_text("x = 1")
    (folder / "notes.txt").write_text("")

    result = load(cortex, app)

    assert result.code == code
    assert result.err.replace(str(folder), "<here>") == f"Error: {message}\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "def load():\n    import no_such_library\nload()\n",
            """\
Error: app.py cannot be imported:
  File "<here>/app.py", line 3, in <module>
    load()
  File "<here>/app.py", line 2, in load
    import no_such_library
ModuleNotFoundError: No module named 'no_such_library'
""",
        ),
        (
            "from cortex_plane import Plane\nplane = = Plane()\n",
            """\
Error: app.py cannot be imported:
  File "<here>/app.py", line 2
    plane = = Plane()
            ^
SyntaxError: invalid syntax
""",
        ),
        (
            "from cortex_plane import Plane\nplane = Plane()\nplane.command('ls', 'ls -l')\n",
            """\
Error: app.py cannot be imported:
  File "<here>/app.py", line 3, in <module>
    plane.command('ls', 'ls -l')
cortex_plane.errors.InvalidInput: argv must be a list of words, such as ["convert", "{source}", "out.png"].
""",
        ),
        (
            "import sys\nsys.exit(3)\n",
            'Error: app.py called exit during its import. Move the call under if __name__ == "__main__".\n',
        ),
    ],
)
def test_an_app_that_breaks_is_shown_where_it_breaks(cortex: Cortex, folder: Path, source: str, message: str) -> None:
    (folder / "app.py").write_text(source)

    result = load(cortex, "app.py")

    assert result.code == 2
    assert result.err.replace(str(folder), "<here>") == message


def test_wrong_settings_are_told_before_the_app_is_imported(
    cortex: Cortex, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "app.py").write_text(APP)
    monkeypatch.setenv("CORTEX_CONCURRENCY", "many")

    result = load(cortex, "app.py")

    assert (result.code, result.err) == (
        2,
        "Error: These settings are wrong:\n  - concurrency must be a whole number, not 'many'.\n",
    )
