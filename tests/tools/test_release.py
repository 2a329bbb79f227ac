"""`make release`: what must not be published is refused. The build itself is tried by `make release`."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import InvalidMetadata

from tools import release
from tools.release import ReleaseError, check_metadata, check_sdist, check_wheel, one_of, sdist_metadata, wheel_metadata

PROJECT: dict[str, Any] = {"name": "cortex-plane", "version": "0.1.0"}
GOOD = """Metadata-Version: 2.4
Name: cortex-plane
Version: 0.1.0
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
Description-Content-Type: text/markdown

# Cortex Plane
"""


def test_good_metadata_is_accepted() -> None:
    check_metadata(GOOD.encode(), PROJECT)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("Version: 0.1.0", "Version: 0.1.1"),
        ("Name: cortex-plane", "Name: another"),
        ("Description-Content-Type: text/markdown\n", ""),
        ("# Cortex Plane\n", ""),
        ("License-Expression: Apache-2.0\n", ""),
        ("License-File: LICENSE\n", ""),
    ],
)
def test_metadata_of_another_project_or_with_gaps_is_refused(line: str, instead: str) -> None:
    with pytest.raises(ReleaseError):
        check_metadata(GOOD.replace(line, instead).encode(), PROJECT)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("Version: 0.1.0", "Version: latest"),
        ("License-Expression: Apache-2.0", "License-Expression: Nobody knows"),
        ("Requires-Python: >=3.11", "Requires-Python: three"),
    ],
)
def test_metadata_that_an_index_would_refuse_is_refused(line: str, instead: str) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        check_metadata(GOOD.replace(line, instead).encode(), PROJECT)

    assert raised.group_contains(InvalidMetadata)


def test_metadata_is_read_from_both_files(tmp_path: Path) -> None:
    sdist, wheel = tmp_path / "cortex_plane-0.1.0.tar.gz", tmp_path / "cortex_plane-0.1.0-py3-none-any.whl"
    pack_sdist(sdist, {"PKG-INFO": GOOD})
    pack_wheel(wheel, {"cortex_plane-0.1.0.dist-info/METADATA": GOOD})

    assert sdist_metadata(sdist) == wheel_metadata(wheel) == GOOD.encode()


@pytest.mark.parametrize("name", [".venv/bin/python", "build/x.py", "src/cortex_plane/__pycache__/x.pyc", "demo.db"])
def test_an_sdist_with_files_of_this_machine_is_refused(tmp_path: Path, name: str) -> None:
    sdist = tmp_path / "cortex_plane-0.1.0.tar.gz"
    pack_sdist(sdist, {"PKG-INFO": GOOD, ".gitignore": ""})
    check_sdist(sdist)

    pack_sdist(sdist, {"PKG-INFO": GOOD, name: ""})

    with pytest.raises(ReleaseError, match=re.escape(name)):
        check_sdist(sdist)


def test_a_wheel_has_all_files_of_the_package_and_no_others(tmp_path: Path) -> None:
    src, wheel = tmp_path / "src", tmp_path / "a.whl"
    (src / "cortex_plane").mkdir(parents=True)
    (src / "cortex_plane" / "jobs.sql").touch()
    complete = {"cortex_plane/jobs.sql": "", "cortex_plane-0.1.0.dist-info/METADATA": GOOD}
    pack_wheel(wheel, complete)
    check_wheel(wheel, src)

    pack_wheel(wheel, complete | {"tests/x.py": ""})
    with pytest.raises(ReleaseError, match=r"tests/x\.py"):
        check_wheel(wheel, src)

    pack_wheel(wheel, {})
    with pytest.raises(ReleaseError, match=r"lacks .*jobs\.sql"):
        check_wheel(wheel, src)


def test_an_old_file_beside_the_new_one_is_noticed(tmp_path: Path) -> None:
    for name in ("a-0.1.0.whl", "a-0.2.0.whl"):
        (tmp_path / name).touch()

    with pytest.raises(ReleaseError, match="should hold one"):
        one_of(tmp_path, "*.whl")


def test_a_command_that_fails_ends_the_release(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="code 3"):
        release._run("sh", "-c", "exit 3", cwd=tmp_path)


def pack_sdist(path: Path, files: dict[str, str]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"cortex_plane-0.1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


def pack_wheel(path: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
