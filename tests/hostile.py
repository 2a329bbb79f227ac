"""Text that is made to hurt: built from a pattern's own pieces, repeated, with an end that keeps the pattern from matching."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterator
from re import _constants as sre
from re import _parser as parser
from time import thread_time
from typing import Any

FIRST_LENGTH, LAST_LENGTH = 250, 16_000
NOTICED_SECONDS = 0.02
"""A linear pattern needs less than a millisecond for the longest text."""
ENDS = ("", "!", "\n", '"', "@")
ALPHABET = string.ascii_letters + string.digits + "_-+/=.,;:@!?#&<>()[]{}'\"\\ \t\n\0é"


def pumps(pattern: str, flags: int = 0) -> list[str]:
    """Texts that some consecutive pieces of the pattern match, at every depth of it."""
    found: dict[str, None] = {}
    tree = parser.parse(pattern, flags & ~re.DEBUG)
    for sequence in _sequences(tree):
        for start in range(len(sequence)):
            for end in range(start + 1, min(start + 6, len(sequence)) + 1):
                for seed in range(3):
                    text = _sample(sequence[start:end], random.Random(seed))
                    found.setdefault(text[:40], None)
    return [pump for pump in found if pump]


def hostile_texts(pattern: str, flags: int = 0, most: int | None = None) -> list[tuple[str, Callable[[int], str]]]:
    """Named ways to make a text of a length: all, or so many of them, drawn by lot but always the same."""
    tree = list(parser.parse(pattern, flags))
    parts = [tree[:count] for count in range(min(4, len(tree)) + 1)] + [tree]
    beginnings = dict.fromkeys(_sample(part, random.Random(seed))[:20] for part in parts for seed in range(2))
    texts = [(beginning, pump, end) for beginning in beginnings for pump in pumps(pattern, flags) for end in ENDS]
    chosen = texts if most is None or len(texts) <= most else random.Random(pattern).sample(texts, most)
    return [(f"{start!r} + {pump!r} * n + {end!r}", _maker(start, pump, end)) for start, pump, end in chosen]


def _maker(start: str, pump: str, end: str) -> Callable[[int], str]:
    return lambda length: start + pump * (length // len(pump)) + end


def grows_faster_than_its_text(work: Callable[[str], Any], make: Callable[[int], str]) -> str | None:
    """Doubles the text; None if the processor time never grows by more than three times. What looks so is looked at again, as
    the garbage collector may have been in the way."""
    length = FIRST_LENGTH
    while length < LAST_LENGTH:
        length *= 2
        if _seconds(work, make(length)) > NOTICED_SECONDS:
            tries = [_growth(work, make, length) for _ in range(3)]
            if all(now > NOTICED_SECONDS and now > 3 * before for before, now in tries):
                return f"{length:,} characters take {tries[0][1]:.3f} s, half of them {tries[0][0]:.3f} s"
    return None


def _growth(work: Callable[[str], Any], make: Callable[[int], str], length: int) -> tuple[float, float]:
    shorter, longer = make(length // 2), make(length)
    return min(_seconds(work, shorter) for _ in range(3)), min(_seconds(work, longer) for _ in range(3))


def _seconds(work: Callable[[str], Any], text: str) -> float:
    began = thread_time()
    work(text)
    return thread_time() - began


# -- pieces of patterns --------------------------------------------------------------------------


def _sequences(tree: Any) -> Iterator[list[Any]]:
    """The pattern itself and everything inside of its groups, choices and repetitions."""
    yield list(tree)
    for operation, argument in tree:
        for inner in _inner(operation, argument):
            yield from _sequences(inner)


def _inner(operation: Any, argument: Any) -> list[Any]:
    match operation:
        case sre.SUBPATTERN:
            return [argument[3]]
        case sre.BRANCH:
            return list(argument[1])
        case sre.MAX_REPEAT | sre.MIN_REPEAT | sre.POSSESSIVE_REPEAT:
            return [argument[2]]
        case sre.ASSERT | sre.ATOMIC_GROUP:
            return [argument[1] if operation is sre.ASSERT else argument]
        case _:
            return []


def _sample(sequence: list[Any], chance: random.Random) -> str:
    return "".join(_one(operation, argument, chance) for operation, argument in sequence)


def _one(operation: Any, argument: Any, chance: random.Random) -> str:
    match operation:
        case sre.LITERAL:
            return chr(argument)
        case sre.NOT_LITERAL | sre.ANY | sre.IN:
            allowed = [each for each in ALPHABET if _fits(operation, argument, each)]
            return chance.choice(allowed) if allowed else ""
        case sre.MAX_REPEAT | sre.MIN_REPEAT | sre.POSSESSIVE_REPEAT:
            least, most, inner = argument
            times = min(least + chance.randrange(3), int(most), 24)
            return "".join(_sample(list(inner), chance) for _ in range(max(times, min(least, 24))))
        case sre.SUBPATTERN:
            return _sample(list(argument[3]), chance)
        case sre.BRANCH:
            return _sample(list(chance.choice(argument[1])), chance)
        case sre.ATOMIC_GROUP:
            return _sample(list(argument), chance)
        case _:
            return ""


def _fits(operation: Any, argument: Any, character: str) -> bool:
    match operation:
        case sre.ANY:
            return character != "\n"
        case sre.NOT_LITERAL:
            return bool(ord(character) != argument)
        case _:
            return any(_in_class(one, inner, character) for one, inner in argument) != (argument[0][0] is sre.NEGATE)


def _in_class(operation: Any, argument: Any, character: str) -> bool:
    match operation:
        case sre.LITERAL:
            return bool(ord(character) == argument)
        case sre.RANGE:
            return bool(argument[0] <= ord(character) <= argument[1])
        case sre.CATEGORY:
            return _CATEGORIES[argument](character)
        case _:
            return False


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_NOT_DIGIT: lambda each: not each.isdigit(),
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_NOT_SPACE: lambda each: not each.isspace(),
    sre.CATEGORY_WORD: lambda each: each.isalnum() or each == "_",
    sre.CATEGORY_NOT_WORD: lambda each: not (each.isalnum() or each == "_"),
}
