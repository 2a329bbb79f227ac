"""Of FastAPI, Starlette and uvicorn only documented names are used, so that many versions of them will do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("fastapi", "starlette", "uvicorn")
DOCUMENTED = {
    "fastapi",
    "fastapi.exceptions",
    "fastapi.openapi.utils",
    "fastapi.responses",
    "starlette.background",
    "starlette.datastructures",
    "starlette.exceptions",
    "starlette.middleware.gzip",
    "starlette.types",
    "uvicorn",
}
EXCEPTIONS = {
    "starlette.routing.Match",  # What `route.matches` answers.
    "uvicorn.protocols.http.h11_impl.H11Protocol",  # The class that `Config(http=…)` takes; ours adds a limit of time.
}


def test_only_documented_names_of_the_frameworks_are_imported() -> None:
    found = {name for path in (ROOT / "src").rglob("*.py") for name in _imported(path)}

    undocumented = {name for name in found if name.rpartition(".")[0] not in DOCUMENTED or "._" in name}

    assert found, "the frameworks are used, so there is something to look at"
    assert undocumented == EXCEPTIONS


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] in FRAMEWORKS:
                yield from (f"{module}.{one.name}" for one in names)
            case ast.Import(names=names):
                yield from (f"{one.name}." for one in names if one.name.partition(".")[0] in FRAMEWORKS)
