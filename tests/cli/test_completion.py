"""`cortex completion`: what a shell proposes at the TAB key, without asking us."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cortex_plane.cli.main import COMMANDS, GROUPS
from tests.cli.conftest import Cortex

BASH, ZSH, FISH = (shutil.which(shell) for shell in ("bash", "zsh", "fish"))

# As bash does it: the words so far, the function that was registered for us, its proposals. No program can be found meanwhile.
PRESS_TAB = """
source "$1"; shift; PATH=
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
set -- $(complete -p cortex); "$3"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(cortex: Cortex, folder: Path) -> Path:
    result = cortex("completion", "bash")
    assert (result.code, result.err) == (0, "")
    written = folder / "cortex.bash"
    written.write_text(result.out)
    return written


def proposed(script: Path, *words: str) -> set[str]:
    assert BASH is not None
    done = subprocess.run(
        [BASH, "--norc", "-c", PRESS_TAB, "tab", str(script), "cortex", *words], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return {line.strip() for line in done.stdout.splitlines() if line.strip()}


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_bash_proposes_commands_groups_and_options(script: Path) -> None:
    top = {path for path in COMMANDS if " " not in path} | {*GROUPS}

    assert top <= proposed(script, "")
    assert proposed(script, "do") == {"doctor"}
    assert proposed(script, "jobs", "re") == {"resume", "retry", "replay", "release"}
    assert {"--status", "--agent", "--watch", "--json"} <= proposed(script, "jobs", "list", "--")
    assert proposed(script, "completion", "") == {"bash", "zsh", "fish"}


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@pytest.mark.parametrize("group", GROUPS)
def test_bash_knows_every_command_of_a_group(script: Path, group: str) -> None:
    assert {path.split()[1] for path in COMMANDS if path.startswith(f"{group} ")} <= proposed(script, group, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_the_same(cortex: Cortex, shell: str) -> None:
    result = cortex("completion", shell)

    assert (result.code, result.err) == (0, "")
    assert all(word in result.out for path in COMMANDS for word in path.split())


@pytest.mark.parametrize(("shell", "program"), [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
def test_a_shell_can_read_its_script(cortex: Cortex, folder: Path, shell: str, program: str | None) -> None:
    if program is None:
        pytest.skip(f"there is no {shell} here")
    (folder / "script").write_text(cortex("completion", shell).out)

    subprocess.run([program, "-n", str(folder / "script")], check=True)


def test_a_shell_that_is_not_known_is_refused(cortex: Cortex) -> None:
    result = cortex("completion", "csh")

    assert (result.code, result.out) == (2, "")
    assert 'Choose from: "bash", "zsh", "fish".' in result.err
