"""`cortex completion`: what a shell needs to complete our commands. It knows them all, and asks nobody at the TAB key."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(name="SHELL", help="bash, zsh or fish.")],
    /,
) -> int:
    """Print the script by which a shell completes commands and options.

    Try:
        cortex completion bash > ~/.local/share/bash-completion/completions/cortex
        cortex completion zsh > "${fpath[1]}/_cortex"
        cortex completion fish > ~/.config/fish/completions/cortex.fish
    """
    from cortex_plane.cli.main import command_tree

    print(command_tree().generate_completion(prog_name="cortex", shell=shell))
    return 0
