"""Loads APP: `file.py`, `file.py:plane`, `module:plane`, or `module`, whose attribute is then `plane`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cortex_plane.adapters.cli.planes import refuse_a_server
from cortex_plane.core.errors import InvalidInput, NotFound, did_you_mean
from cortex_plane.settings import load_settings

if TYPE_CHECKING:
    from cortex_plane.plane import Plane

ATTRIBUTE = "plane"
FRAMES_SHOWN = 3
PACKAGE = Path(__file__).parents[2]


def load_app(app: str | None, database_url: str | None = None) -> Plane:
    """The plane that APP names, on the database that was asked for."""
    settings = load_settings()  # Also with an app: wrong settings are better told here than from inside its import.
    wanted = app or settings.app
    if not wanted:
        raise InvalidInput(
            "Which app? Name the file that has your plane, such as: cortex worker examples/hello.py\nOr set CORTEX_APP.",
            field="app",
        )
    place, attribute = _parted(wanted)
    plane = _plane_in(_module(place), place, attribute)
    refuse_a_server(plane.settings, database_url)
    if database_url is not None:
        plane.settings = replace(plane.settings, database_url=database_url)
    return plane


def _parted(app: str) -> tuple[str, str | None]:
    place, colon, attribute = app.rpartition(":")
    return (place, attribute) if colon and place and not set("/\\") & set(attribute) else (app, None)


def _module(place: str) -> ModuleType:
    if place.endswith(".py") or "/" in place or "\\" in place:
        return _from_file(Path(place))
    _look_first_in(Path.cwd())
    return _imported(place, place)


# -- files ---------------------------------------------------------------------------------------


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NotFound(_no_such_file(path))
    if path.suffix != ".py":
        raise InvalidInput(f"{path} is not a Python file. An app is file.py, file.py:plane or module:plane.", field="app")
    folder, names = path.resolve().parent, [path.stem]
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    _look_first_in(folder)
    return _imported(".".join(names), str(path)) if len(names) > 1 else _executed(path)


def _executed(path: Path) -> ModuleType:
    """A file by itself. It gets a name of its own, so that a `queue.py` does not take the place of Python's."""
    name = path.stem if path.stem not in sys.modules and path.stem not in sys.stdlib_module_names else f"cortex_app_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(str(path), error) from error
    return module


def _no_such_file(path: Path) -> str:
    if path.is_dir():
        found = sorted(str(file) for file in path.glob("*.py"))
        return f"{path} is a folder. Name the file in it that has your plane{f', such as {found[0]}' if found else ''}."
    if not path.parent.is_dir():
        return f"There is no file {path}, and no folder {path.parent} either. You are in {Path.cwd()}."
    neighbours = {file.name: str(file) for file in path.parent.glob("*.py")}
    hint = did_you_mean(path.name, neighbours) or (
        f" In that folder there are: {', '.join(sorted(neighbours))}." if neighbours else ""
    )
    return f"There is no file {path}.{hint} You are in {Path.cwd()}."


# -- modules -------------------------------------------------------------------------------------


def _look_first_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _imported(name: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise NotFound(_no_such_module(error.name)) from error
        raise _broken(place, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(place, error) from error


def _no_such_module(name: str) -> str:
    files = [file.stem for file in Path.cwd().glob("*.py")]
    return (
        f'There is no module "{name}".{did_you_mean(name, files)} '
        f"To name a file instead, write its path with .py at the end. You are in {Path.cwd()}."
    )


def _broken(place: str, error: BaseException) -> InvalidInput:
    """The last few frames of the user's own code, without libraries, the machinery of imports, and us."""
    if isinstance(error, SystemExit):
        return InvalidInput(f"{place} ended the program while it was imported (it called exit). Guard that with __name__.")
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not _is_machinery(frame.filename)]
    lines = [f'  File "{at.filename}", line {at.lineno}, in {at.name}\n    {at.line}' for at in theirs[-FRAMES_SHOWN:]]
    lines += [line.rstrip() for line in traceback.format_exception_only(error)]
    return InvalidInput("\n".join([f"{place} cannot be imported:", *lines]), field="app")


def _is_machinery(filename: str) -> bool:
    if filename.startswith(("<frozen ", str(PACKAGE))):
        return True
    return any(folder in Path(filename).parts for folder in ("site-packages", "importlib"))


# -- attributes ----------------------------------------------------------------------------------


def _plane_in(module: ModuleType, place: str, attribute: str | None) -> Plane:
    from cortex_plane.plane import Plane

    found = _attribute(module, attribute or ATTRIBUTE)
    if isinstance(found, Plane):
        return found
    planes = [name for name, value in vars(module).items() if isinstance(value, Plane)]
    raise _not_a_plane(found, place, attribute or ATTRIBUTE, planes)


def _attribute(module: ModuleType, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _not_a_plane(found: Any, place: str, attribute: str, planes: list[str]) -> NotFound | InvalidInput:
    if planes:
        hint = f"Its plane is named {planes[0]!r}: write {place}:{planes[0]}"
    else:
        hint = f"It has no plane at all. Add one: {attribute} = Plane()"
    if found is None:
        return NotFound(f'{place} has no "{attribute}". {hint}')
    return InvalidInput(f"{place}:{attribute} is of type {type(found).__name__}, not a Plane. {hint}", field="app")
