"""`cortex completion`: a completion script for a shell. The script contains all commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(name="SHELL", help="bash, zsh or fish.")],
    /,
) -> int:
    """Print a completion script for a shell.

    Try:
        cortex completion bash > ~/.local/share/bash-completion/completions/cortex
        cortex completion zsh > "${fpath[1]}/_cortex"
        cortex completion fish > ~/.config/fish/completions/cortex.fish
    """
    from cortex_plane.cli.main import command_tree

    print(command_tree().generate_completion(prog_name="cortex", shell=shell))
    return 0
