"""`python -m tools.house [REVISION]` prints the figures of the source tree, beside those of a revision and our goals."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tools.house.figures import Figures, measure
from tools.house.life import Life, trace
from tools.house.table import draw, rows
from tools.house.tree import ROOT, SourceTree, commit_of, unpacked

MEASURED_BEFORE = "fa04e96"
"""The commit from which the goals were set."""


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    present = _measure(SourceTree(ROOT / "src"))
    commit = commit_of(options.revision)
    before = None
    if commit:
        with unpacked(commit) as tree:
            before = _measure(tree)
    elif options.revision != MEASURED_BEFORE:
        print(f"There is no commit {options.revision} here. To see those that there are: git log --oneline", file=sys.stderr)
        return 2
    table = rows(present, before)
    print(draw(table, commit if before else None))
    if options.names:
        _print_names(*present)
    return int(options.check and any(row.met is False for row in table))


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.house", description="Measures the source tree.")
    parser.add_argument("revision", nargs="?", default=MEASURED_BEFORE, help="the commit to compare with (%(default)s)")
    parser.add_argument("--names", action="store_true", help="also list what is counted: modules, classes, protocols, files")
    parser.add_argument("--check", action="store_true", help="fail if a goal is missed")
    return parser.parse_args(words)


def _measure(tree: SourceTree) -> tuple[Figures, Life | None]:
    return measure(tree), trace(tree.src)


def _print_names(figures: Figures, life: Life | None) -> None:
    lists = {
        "Modules under 40 lines with one importer": figures.small_modules,
        "Class names defined more than once": figures.repeated_classes,
        "Protocols with one implementation": figures.single_protocols,
        "Files crossed by a job's life": life.files if life else [],
    }
    for title, names in lists.items():
        print(f"\n{title}:", *names, sep="\n  ")


if __name__ == "__main__":
    sys.exit(main())
