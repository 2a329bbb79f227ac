"""`cortex new`: creates a small project."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cortex_plane.cli.planes import AsJson
from cortex_plane.errors import Conflict, InvalidInput, Unavailable

# The templates end in .txt, so that our tests and linters ignore them.
FILES = {
    "app.py": "app.py.txt",
    "tests/test_app.py": "test_app.py.txt",
    "README.md": "README.md.txt",
    "pyproject.toml": "pyproject.toml.txt",
    ".gitignore": "gitignore.txt",
}
NEXT = [
    ("python -m pytest", "one test kills a worker; no work is lost"),
    ("cortex worker app.py", "in one terminal; or with a dashboard: cortex dev app.py"),
    ("cortex jobs submit report topic=otters --wait", "in another"),
]
# Project names that packaging tools accept.
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
OURS = "cortex-plane"


def new(
    name: Annotated[str, Parameter(name="NAME", help="The name of the project and of its new folder.")],
    /,
    *,
    as_json: AsJson = False,
) -> int:
    """Create a small project: an agent, its tests, and a README.

    The agent has two steps, a tool, and an optional approval. One of the tests kills the worker during
    a job. Existing files are not overwritten: the folder must be new or empty.

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
            f"{name!r:.60} cannot be the name of a project. Use up to 100 letters, digits, '-', '_' and '.', "
            "with a letter or a digit at both ends.",
            field="name",
        )
    if re.sub(r"[-_.]+", "-", name).lower() == OURS:
        raise InvalidInput(f"{name!r} is the name of this package, which the project depends on. Choose another.", field="name")


def _refuse_to_write_over(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()):
        raise Conflict(f"The folder {folder} is not empty. Choose another name, or empty it first.")
    if folder.exists() and not folder.is_dir():
        raise Conflict(f"{folder} already exists and is not a folder. Choose another name.")


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
    print("\n".join([f"Created {folder} with {', '.join(FILES)}. Next:", "", *lines]))
