"""The source files of one version of the project: of the working tree, or of a git revision unpacked into a temporary folder."""

from __future__ import annotations

import ast
import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
TEXT = {".py", ".sql", ".html", ".js", ".css", ".json", ".toml", ".txt"}


@dataclass(frozen=True)
class Module:
    """One Python file, parsed."""

    name: str
    path: Path
    lines: int
    tree: ast.Module

    @property
    def package(self) -> str:
        """The package that its relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class SourceTree:
    """Everything under a `src` folder, whatever the folders in it are called."""

    src: Path

    @cached_property
    def files(self) -> list[Path]:
        """The text files, without what is generated."""
        found = (path for path in self.src.rglob("*") if path.suffix in TEXT and path.is_file())
        return sorted(path for path in found if "__pycache__" not in path.parts and ".min." not in path.name)

    @cached_property
    def modules(self) -> list[Module]:
        return [self._parse(path) for path in self.files if path.suffix == ".py"]

    def count(self, suffix: str) -> int:
        return sum(path.suffix == suffix for path in self.files)

    def _parse(self, path: Path) -> Module:
        text = path.read_text()
        parts = path.relative_to(self.src).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        return Module(name, path, len(text.splitlines()), ast.parse(text))


def commit_of(revision: str, root: Path = ROOT) -> str | None:
    """The short id of the commit, or None if the history here does not have it."""
    command = ["git", "rev-parse", "--verify", "--quiet", "--short", f"{revision}^{{commit}}"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # git is not installed.
        return None
    return done.stdout.strip() or None


@contextmanager
def unpacked(revision: str, root: Path = ROOT) -> Iterator[SourceTree]:
    """The source tree of a revision, for as long as the context is open."""
    archive = subprocess.run(["git", "archive", revision, "src"], cwd=root, capture_output=True, check=True).stdout
    with TemporaryDirectory(prefix="cortex-house-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        yield SourceTree(Path(folder) / "src")
