"""How the inside of a durable job looks: its steps, its progress as a bar, its tokens."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from cortex_plane.adapters.cli.output import console, one_line, one_line_each, words
from cortex_plane.adapters.cli.times import span
from cortex_plane.core.events import ProgressMade, TokensUsed

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

BAR_WIDTH = 30
INDENT = 2


def step_table(steps: list[dict[str, Any]]) -> RenderableType:
    rows = [
        [
            words(step["step_index"]),
            words(step["step_id"]),
            words(span(datetime.fromisoformat(step["finished_at"]) - datetime.fromisoformat(step["started_at"]))),
            words(step["tool_calls"] or ""),
            one_line(step["result_summary"], "dim", console().width),
        ]
        for step in steps
    ]
    return one_line_each(["STEP", "NAME", "TOOK", "TOOLS", "RESULT"], rows, right=[0, 2, 3], indent=INDENT)


def tokens_text(tokens: TokensUsed) -> Text:
    return words(f"{tokens.prompt_tokens:,} prompt + {tokens.completion_tokens:,} completion tokens")


def bar(progress: ProgressMade) -> Text:
    """`━━━━━━────  6 of 10, 60 %  reading`. Whatever a handler told is shown somehow."""
    done, total = progress.done, progress.total
    text = words(f"  {progress.text}" if progress.text else "")
    if not _is_number(done) or not _is_number(total) or total <= 0:
        return words(done if total is None else f"{done} of {total}") + text
    share = min(max(done / total, 0.0), 1.0)
    filled = round(share * BAR_WIDTH)
    drawn = words("━" * filled, "cyan") + words("─" * (BAR_WIDTH - filled), "dim")
    return drawn + words(f"  {done:g} of {total:g}, {share:.0%}") + text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
