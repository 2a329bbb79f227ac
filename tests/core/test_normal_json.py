"""The form in which JSON is stored, and what it refuses, always with the path."""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.errors import InvalidInput
from cortex_plane.json import MAX_DEPTH, dumps, encode, normal
from tests.core.values import json_values


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Name(str):
    pass


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@given(json_values)
def test_the_normal_form_of_a_normal_form_is_itself(value: Any) -> None:
    once = normal(value)

    assert dumps(normal(once)) == dumps(once)


@given(json_values)
def test_the_normal_form_survives_its_own_text(value: Any) -> None:
    text = encode(value)

    assert encode(orjson.loads(text)) == text


@given(st.dictionaries(st.text(max_size=5).filter(lambda key: "\x00" not in key), st.integers(0, 9), max_size=8))
def test_the_order_in_which_keys_were_given_does_not_matter(value: dict[str, int]) -> None:
    backwards = dict(reversed(list(value.items())))

    assert encode(backwards) == encode(value)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (1e15, "1000000000000000"),
        (-(2.0**63), "-9223372036854775808"),
        (2**63 - 1, "9223372036854775807"),
        (2.0**63, "9223372036854775808"),
        (2**64 - 1, "18446744073709551615"),
        (2.0**64, "1.8446744073709552e19"),
        (1e30, "1e30"),
        ({"b": 1, "a": {"d": 1, "c": 2}}, '{"a":{"c":2,"d":1},"b":1}'),
        ((1, 2), "[1,2]"),
        (OrderedDict(b=1, a=2), '{"a":2,"b":1}'),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        (Colour.RED, '"red"'),
        (Level.HIGH, "3"),
        (Name("x"), '"x"'),
        ({Name("key"): True}, '{"key":true}'),
        ("ÿ\U0001f600", '"ÿ\U0001f600"'),
    ],
)
def test_values_have_one_text(value: Any, stored: str) -> None:
    assert orjson.loads(encode(value)) == orjson.loads(stored)
    assert encode(value) == dumps(orjson.loads(stored))


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        (float("nan"), "payload.a[1].b", "JSON cannot hold"),
        (float("inf"), "payload.a[1].b", "JSON cannot hold"),
        (float("-inf"), "payload.a[1].b", "JSON cannot hold"),
        ("a\x00b", "payload.a[1].b", "NUL"),
        ("\ud800", "payload.a[1].b", "surrogate"),
        ("é\udfff", "payload.a[1].b", "surrogate"),
        (b"bytes", "payload.a[1].b", "type bytes"),
        ({1, 2}, "payload.a[1].b", "type set"),
        (object(), "payload.a[1].b", "type object"),
        (2**64, "payload.a[1].b", "beyond 64 bits"),
        (-(2**63) - 1, "payload.a[1].b", "beyond 64 bits"),
        (10**400, "payload.a[1].b", "beyond 64 bits"),
        (complex(1, 2), "payload.a[1].b", "type complex"),
        ({7: "seven"}, "payload.a[1].b", "keys must be text"),
        ({None: 1}, "payload.a[1].b", "keys must be text"),
        ({("a", 1): 1}, "payload.a[1].b", "keys must be text"),
        ({"k\x00": 1}, "payload.a[1].b.'k\\x00'", "NUL"),
        ({"k\ud800": 1}, "payload.a[1].b.'k\\ud800'", "surrogate"),
    ],
    ids=lambda value: f"{value!r:.16}",
)
def test_what_cannot_be_stored_is_refused_with_its_path(value: Any, path: str, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        normal({"a": [0, {"b": value}]}, "payload")

    assert refused.value.field == path
    assert path in str(refused.value)
    assert why in str(refused.value)
    str(refused.value).encode()  # The message itself must be printable anywhere.


def test_nesting_is_limited_and_the_limit_itself_is_allowed() -> None:
    normal(nested(MAX_DEPTH))

    with pytest.raises(InvalidInput, match="deep") as refused:
        normal(nested(MAX_DEPTH + 1), "payload")
    assert refused.value.field == "payload" + "[0]" * MAX_DEPTH


def test_a_value_that_contains_itself_is_refused_and_not_followed_for_ever() -> None:
    ring: list[Any] = []
    ring.append(ring)

    with pytest.raises(InvalidInput, match="deep"):
        normal(ring)
