"""A job's arguments as words of a command line."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from cortex_plane import InvalidInput, NotFound
from cortex_plane.cli.output import payload_from


@pytest.mark.parametrize(
    ("words", "payload"),
    [
        ([], {}),
        (["name=Ada", "count=3"], {"name": "Ada", "count": 3}),
        (["price=1.5", "on=true", "none=null", 'list=["a", 2]'], {"price": 1.5, "on": True, "none": None, "list": ["a", 2]}),
        (['id="007"', "code=007", "empty="], {"id": "007", "code": "007", "empty": ""}),
        (["query=a=b", "name=Ada Lovelace"], {"query": "a=b", "name": "Ada Lovelace"}),
        (["ratio=NaN"], {"ratio": "NaN"}),
        (['{"name": "Ada", "deep": {"x": [1]}}'], {"name": "Ada", "deep": {"x": [1]}}),
        (["  {} "], {}),
    ],
)
def test_values_are_json_where_they_are_json_and_text_otherwise(words: list[str], payload: dict[str, Any]) -> None:
    assert payload_from(words) == payload


def test_a_file_or_stdin_may_hold_the_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ada.json").write_text('{"name": "Ada"}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"name": "Bob"}'))

    assert payload_from([f"@{tmp_path}/ada.json"]) == {"name": "Ada"}
    assert payload_from(["@-"]) == {"name": "Bob"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Ada"], '"Ada" is not a key=value pair'),
        (["=Ada"], '"=Ada" is not a key=value pair'),
        (["a=1", "a=2"], '"a" is given twice. For a list, write JSON: a='),
        (['{"a"'], "The payload is not valid JSON: unexpected end of data"),
        (['{"a": 1}', "b=2"], "is not a key=value pair"),
    ],
)
def test_anything_else_is_refused_with_the_way_to_write_it(words: list[str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message.replace("(", r"\(")):
        payload_from(words)


def test_a_list_is_not_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("[1]"))

    with pytest.raises(InvalidInput, match="The payload from stdin is not a JSON object"):
        payload_from(["@-"])


def test_a_missing_file_and_an_unreadable_one_are_named(tmp_path: Path) -> None:
    (tmp_path / "picture.json").write_bytes(b"\xff\xfe")

    with pytest.raises(NotFound, match=r"There is no file .*gone\.json"):
        payload_from([f"@{tmp_path}/gone.json"])
    with pytest.raises(InvalidInput, match=r"picture\.json cannot be read"):
        payload_from([f"@{tmp_path}/picture.json"])
