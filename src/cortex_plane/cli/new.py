"""`cortex new`: a small project that runs, to be changed into one's own."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cortex_plane.cli.planes import AsJson
from cortex_plane.errors import Conflict, InvalidInput, Unavailable

# Text, not code, in our package: neither our tests nor our checks are to take these files for ours.
FILES = {
    "app.py": "app.py.txt",
    "tests/test_app.py": "test_app.py.txt",
    "README.md": "README.md.txt",
    "pyproject.toml": "pyproject.toml.txt",
    ".gitignore": "gitignore.txt",
}
NEXT = [
    ("python -m pytest", "a worker dies in the middle of a test; nothing is lost"),
    ("cortex worker app.py", "in one terminal; or with a dashboard: cortex dev app.py"),
    ("cortex jobs submit report topic=otters --wait", "in another"),
]
# What a project may be called, as packaging tools see it.
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
OURS = "cortex-plane"


def new(
    name: Annotated[str, Parameter(name="NAME", help="Of the project, and of the folder that is made here for it.")],
    /,
    *,
    as_json: AsJson = False,
) -> int:
    """Make a folder with a small project that runs: an agent, its tests, and what to do next.

    The agent has two steps and a tool, and asks a person if it is told to. One of its tests kills the
    worker in the middle. Nothing of yours is written over: a folder that has anything in it is refused.

    Try:
        cortex new otters
    """
    _check_name(name)
    folder = Path(name)
    _refuse_to_write_over(folder)
    _write(folder, name)
    _tell(folder, as_json)
    return 0


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name) or len(name) > 100:
        raise InvalidInput(
            f"{name!r:.60} cannot be the name of a project: letters, digits, '-', '_' and '.' may be in it, "
            "with a letter or a digit at both ends, up to 100 in all.",
            field="name",
        )
    if re.sub(r"[-_.]+", "-", name).lower() == OURS:
        raise InvalidInput(f"{name!r} is our own name: the project could not name us as what it needs.", field="name")


def _refuse_to_write_over(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()):
        raise Conflict(f"The folder {folder} has something in it already. Choose another name, or empty it first.")
    if folder.exists() and not folder.is_dir():
        raise Conflict(f"{folder} is there already, and is no folder. Choose another name.")


def _write(folder: Path, name: str) -> None:
    starter = files("cortex_plane.cli").joinpath("starter")
    try:
        for place, source in FILES.items():
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(starter.joinpath(source).read_text("utf-8").replace("{{name}}", name), "utf-8")
    except OSError as error:
        raise Unavailable(f"{error.filename or folder} cannot be written: {error.strerror or error}.") from None


def _tell(folder: Path, as_json: bool) -> None:
    commands = [f"cd {folder}", *(command for command, _ in NEXT)]
    if as_json:
        from cortex_plane.cli.output import print_json

        print_json({"folder": str(folder), "files": list(FILES), "next": commands})
        return
    width = max(len(command) for command, _ in NEXT)
    lines = [f"  cd {folder}", *(f"  {command.ljust(width)}  {remark}" for command, remark in NEXT)]
    print("\n".join([f"Made {folder} with {', '.join(FILES)}. Next:", "", *lines]))
