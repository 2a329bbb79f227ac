"""The pages that people read, and the programs in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Fence(NamedTuple):
    page: str
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"

    @property
    def is_whole_program(self) -> bool:
        """It makes its own plane, or says under which name to save it; and it awaits nothing outside of functions."""
        if self.language != "python" or not ("plane = Plane()" in self.text or self.text.startswith("# ")):
            return False
        try:
            compile(self.text, str(self), "exec")
        except SyntaxError:
            return False
        return True


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def fences() -> list[Fence]:
    return [
        Fence(document.relative_to(ROOT).as_posix(), number, language, text)
        for document in documents()
        for number, (language, text) in enumerate(FENCE.findall(document.read_text()), 1)
    ]
