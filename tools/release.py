"""`make release`: builds the sdist and the wheel, checks their metadata, and tries the wheel in an empty environment.

sources ──▶ dist/*.tar.gz, dist/*.whl ──▶ metadata ──▶ an empty venv: requirements.lock, the wheel ──▶ a job on SQLite

Nothing is uploaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.metadata import Metadata
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
SMOKE_TEST = Path(__file__).with_name("smoke_test.py")
NOT_FOR_SDISTS = {".venv", ".git", "build", "dist", "__pycache__"}


class ReleaseError(Exception):
    """What is wrong with what was built."""


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(DIST), cwd=ROOT)
    sdist, wheel = one_of(DIST, "*.tar.gz"), one_of(DIST, "*.whl")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    check_metadata(sdist_metadata(sdist), project)
    check_metadata(wheel_metadata(wheel), project)
    check_sdist(sdist)
    check_wheel(wheel, ROOT / "src")
    print(f"{sdist.name} and {wheel.name}: metadata and contents are good.", flush=True)
    try_wheel(wheel)
    print(f"{wheel.name} runs in an empty environment. Both files are in {DIST.relative_to(ROOT)}/; nothing was uploaded.")


def one_of(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ReleaseError(f"{folder} should hold one {pattern}, and holds {[path.name for path in found]}.")
    return found[0]


def sdist_metadata(sdist: Path) -> bytes:
    with tarfile.open(sdist) as archive:
        file = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert file is not None
        return file.read()


def wheel_metadata(wheel: Path) -> bytes:
    name, version, *_ = wheel.name.split("-")
    return zipfile.ZipFile(wheel).read(f"{name}-{version}.dist-info/METADATA")


def check_metadata(raw: bytes, project: dict[str, Any]) -> None:
    """The rules of the core metadata, as package indexes apply them; then that it is the metadata of this project."""
    metadata = Metadata.from_email(raw, validate=True)
    if canonicalize_name(metadata.name) != canonicalize_name(project["name"]) or str(metadata.version) != project["version"]:
        raise ReleaseError(f"The metadata is not of this project, but of {metadata.name} {metadata.version}.")
    if metadata.description_content_type != "text/markdown" or not metadata.description:
        raise ReleaseError("The README is missing from the metadata, or is not marked as Markdown.")
    if not metadata.license_expression or not metadata.license_files:
        raise ReleaseError("The license is missing from the metadata.")


def check_sdist(sdist: Path) -> None:
    """Builds on this machine must not slip in."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    if wrong := [name for name in names if NOT_FOR_SDISTS & set(name.split("/")) or name.endswith(".db")]:
        raise ReleaseError(f"The sdist holds what does not belong into it: {wrong[:5]}")


def check_wheel(wheel: Path, src: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {path.relative_to(src).as_posix() for path in src.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    if missing := sorted(wanted - names):
        raise ReleaseError(f"The wheel lacks {missing[:5]}.")
    packages = {path.name for path in src.iterdir() if path.is_dir()}
    if strange := sorted(name for name in names if name.split("/")[0] not in packages and ".dist-info/" not in name):
        raise ReleaseError(f"The wheel holds what does not belong into it: {strange[:5]}")


def try_wheel(wheel: Path) -> None:
    """Installs the locked dependencies and the wheel where nothing else is, and runs `tools/smoke_test.py` there."""
    with TemporaryDirectory(prefix="cortex-release-") as folder:
        python = _empty_environment(Path(folder) / "venv")
        pip = [_python_with_pip(), "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", str(python)]
        _run(*pip, "install", "--no-deps", "--require-hashes", "-r", str(ROOT / "requirements.lock"), cwd=Path(folder))
        _run(*pip, "install", "--no-deps", "--no-index", str(wheel), cwd=Path(folder))
        _run(*pip, "check", cwd=Path(folder))
        _run(str(python), "-I", str(SMOKE_TEST), cwd=Path(folder))


def _empty_environment(folder: Path) -> Path:
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder), cwd=folder.parent)
    return folder / "bin" / "python"


def _python_with_pip() -> str:
    """Some systems ship Python without ensurepip; `.venv` then has no pip of its own."""
    return sys.executable if find_spec("pip") else str(getattr(sys, "_base_executable", sys.executable))


def _run(*command: str, cwd: Path) -> None:
    """Without our own settings and paths, so that only what is installed is found."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CORTEX_", "PYTHON"))}
    done = subprocess.run(command, cwd=cwd, env=environment, check=False)
    if done.returncode:
        raise ReleaseError(f"This failed with code {done.returncode}: {' '.join(command)}")


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(str(error))
