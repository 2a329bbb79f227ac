"""What the documentation shows works: programs run, commands exist."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from time import time
from typing import Any

import pytest

from cortex_plane.cli.main import COMMANDS, GROUPS
from cortex_plane.webhooks.model import signature
from tests.docs.pages import ROOT, Fence, fences

PROGRAMS = [fence for fence in fences() if fence.is_whole_program]
PYTHON = [fence for fence in fences() if fence.language == "python"]

# Commands that pages may name before this version has them: each goes when its part is there.
COMING = {"serve"} if find_spec("cortex_plane.http") is None else set()


def run(*words: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """In an empty folder, on its own SQLite file."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
    return subprocess.run(words, cwd=folder, env=environment, input=stdin, capture_output=True, text=True, check=False)


def cortex(line: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    code = "import sys; from cortex_plane.cli.main import main; sys.exit(main())"
    return run(sys.executable, "-c", code, *shlex.split(line, comments=True)[1:], folder=folder, stdin=stdin)


@pytest.mark.parametrize("fence", PYTHON, ids=str)
def test_every_piece_of_python_can_be_read(fence: Fence) -> None:
    compile(fence.text, str(fence), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize(
    ("age", "body", "genuine"), [(0, b"{}", True), (0, b"[]", False), (400, b"{}", False), (-400, b"{}", False)]
)
def test_the_receiver_of_webhooks_refuses_what_is_old_or_forged(age: int, body: bytes, genuine: bool) -> None:
    [receiver] = [fence for fence in PYTHON if "def is_genuine" in fence.text]
    names: dict[str, Any] = {}
    exec(receiver.text, names)
    sent, secret = int(time()) - age, "whsec_" + "QUJD" * 8

    signed = signature(secret, "msg_1", sent, b"{}")

    assert names["is_genuine"](secret, "msg_1", str(sent), signed, body) is genuine


@pytest.mark.parametrize("fence", PROGRAMS, ids=str)
def test_every_whole_program_runs(fence: Fence, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(fence.text)

    done = run(sys.executable, "program.py", folder=tmp_path)

    assert done.returncode == 0, done.stderr


def test_there_are_programs_to_run() -> None:
    assert len(PROGRAMS) >= 8


def test_the_quick_start_does_what_it_says(tmp_path: Path) -> None:
    page = [fence for fence in fences() if fence.page == "docs/quick-start.md"]
    (program,) = [fence.text for fence in page if fence.is_whole_program]
    lines = [line for fence in page for line in fence.text.splitlines() if line.startswith("$ cortex ")]
    (tmp_path / "orders.py").write_text(program)

    done = [cortex(line.removeprefix("$ "), tmp_path) for line in lines]

    assert [(one.returncode, one.stderr) for one in done if one.returncode] == []
    assert len(done) == 3
    assert "COMPLETED" in done[-1].stdout.upper()


def test_somebody_can_sign_in_as_the_guide_for_serving_says(tmp_path: Path) -> None:
    page = [fence for fence in fences() if fence.page == "docs/operations/serving.md"]
    lines = [line.removeprefix("$ ") for fence in page for line in fence.text.splitlines() if line.startswith("$ cortex ")]
    made = [line for line in lines if line.split()[1] in {"db", "users", "keys"}]

    done = [cortex(line, tmp_path, stdin="correct horse battery\n") for line in made]

    assert [(one.args, one.stderr) for one in done if one.returncode] == []
    assert len(done) == 4
    assert "nightly-import" in done[-1].stdout
    assert json.loads(cortex("cortex users show ada --json", tmp_path).stdout)


def test_a_backup_as_the_guide_makes_it_has_every_job(tmp_path: Path) -> None:
    page = [fence for fence in fences() if fence.page == "docs/operations/backup-and-restore.md"]
    (program,) = [fence.text for fence in page if fence.is_whole_program]
    (tmp_path / "backup.py").write_text(program)
    hello = ROOT / "examples" / "hello.py"
    assert cortex(f"cortex jobs submit greet name=Ada --app {hello}", tmp_path).returncode == 0

    assert run(sys.executable, "backup.py", "cortex.db", "copy.db", folder=tmp_path).returncode == 0

    listed = cortex("cortex jobs list --database-url sqlite:///copy.db", tmp_path)
    assert "greet" in listed.stdout


def test_every_command_that_a_page_types_exists() -> None:
    unknown = [
        f"{fence.page}: {line.strip()}"
        for fence in fences()
        if fence.language == "console"
        for line in fence.text.splitlines()
        for words in re.findall(r"(?:^\$ |&& |exec \w+ )cortex (.*)", line)
        if not _exists(words.split())
    ]

    assert unknown == []


def test_every_command_that_a_sentence_names_exists() -> None:
    texts = {path: path.read_text() for path in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "operations").glob("*.md")]}

    unknown = [
        f"{path.name}: cortex {words}"
        for path, text in texts.items()
        for words in re.findall(r"`cortex ((?:[a-z-]+ ?)+)", text)
        if not _exists(words.split())
    ]

    assert unknown == []


def _exists(words: list[str]) -> bool:
    """`cortex jobs` alone names a group; `cortex worker agents.py` a command and its argument."""
    known = {*COMMANDS, *GROUPS, *COMING}
    if words[0] in GROUPS:
        return len(words) == 1 or " ".join(words[:2]) in known
    return words[0] in known
