"""What an approver may change of the details before approving them, and the check of what they changed.

False               nothing
True                anything, as long as an object stays an object and a list stays a list
["image", "tag"]    these keys of an object
{"type": …}         whatever matches a JSON Schema, of which the words below are known
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from cortex_plane.core.errors import InvalidInput
from cortex_plane.core.normal_json import Json, normal

TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
WORDS = {
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
    "minimum", "maximum", "minLength", "maxLength", "pattern",
    "title", "description", "default", "examples", "$schema",
}  # fmt: skip
KINDS_OF_WORDS = (
    (("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"), "number"),
    (("enum", "required"), "array"),
    (("properties",), "object"),
    (("pattern",), "string"),
)
MAX_DEPTH = 50


def checked_editable(editable: Any, details: Json, quorum: int) -> Json:
    """The rule in normal form. Raises InvalidInput when it could not be kept."""
    if editable is False or editable is None:
        return False
    if quorum != 1:
        raise InvalidInput("editable needs a quorum of 1: what one approver changes, the others have not seen.", field="editable")
    if editable is True:
        return True
    if isinstance(editable, list | tuple) and editable and all(isinstance(key, str) for key in editable):
        if not isinstance(details, dict):
            raise InvalidInput("editable names keys, so details must be an object.", field="editable")
        return [str(key) for key in editable]
    if isinstance(editable, Mapping):
        rule = normal(editable, "editable")
        _check_schema(rule, "editable", 0)
        return rule
    raise InvalidInput("editable must be True, False, a list of keys, or a JSON Schema.", field="editable")


def edited(details: Json, edits: Any, editable: Json) -> Json:
    """The new details in normal form; None when nothing was changed. Raises InvalidInput naming what may not be so."""
    if edits is None:
        return None
    changed = normal(edits, "details")
    if changed == details and changed is not None:
        return None
    if editable is False:
        raise InvalidInput("The details of this request cannot be changed: approve them as they are, or deny.", field="details")
    if editable is True:
        _check_kind(details, changed)
    elif isinstance(editable, list):
        _check_keys(details, changed, [str(key) for key in editable])
    else:
        _check(changed, editable, "details", 0)
    return changed


def _check_kind(details: Json, changed: Json) -> None:
    for kind, name in ((dict, "an object"), (list, "a list")):
        if isinstance(details, kind) and not isinstance(changed, kind):
            raise InvalidInput(f"details must stay {name}.", field="details")


def _check_keys(details: Json, changed: Json, keys: list[str]) -> None:
    if not isinstance(changed, dict) or not isinstance(details, dict):
        raise InvalidInput("details must stay an object.", field="details")
    for key in details.keys() | changed.keys():
        same = key in details and key in changed and details[key] == changed[key]
        if not same and key not in keys:
            raise InvalidInput(f"details.{key} cannot be changed; only {', '.join(keys)} can.", field=f"details.{key}")


# -- the part of JSON Schema that is known -------------------------------------------------------


def _check_schema(schema: Any, path: str, depth: int) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        raise InvalidInput(f"{path} must be a JSON Schema: an object, not nested too deeply.", field=path)
    if unknown := sorted(schema.keys() - WORDS):
        raise InvalidInput(
            f"{path} has {unknown[0]!r}, which is not checked here. Known: {', '.join(sorted(WORDS))}.", field=path
        )
    _check_words(schema, path)
    for word in ("items", "additionalProperties"):
        if word in schema:
            _check_schema(schema[word], f"{path}.{word}", depth + 1)
    for name, inner in schema.get("properties", {}).items():
        _check_schema(inner, f"{path}.properties.{name}", depth + 1)


def _check_words(schema: dict[str, Any], path: str) -> None:
    for words, kind in KINDS_OF_WORDS:
        for word in words:
            if word in schema and not TYPES[kind](schema[word]):
                raise InvalidInput(f"{path}.{word} must be of type {kind}.", field=f"{path}.{word}")
    types = schema.get("type", [])
    for name in types if isinstance(types, list) else [types]:
        if name not in TYPES:
            raise InvalidInput(f"{path}.type must be one of {', '.join(TYPES)}, not {name!r:.80}.", field=f"{path}.type")
    if "pattern" in schema:
        _pattern(schema["pattern"], path)


def _pattern(pattern: str, path: str) -> None:
    try:
        re.compile(pattern)
    except re.error:
        raise InvalidInput(f"{path}.pattern is not a regular expression: {pattern!r:.80}.", field=f"{path}.pattern") from None


def _check(value: Json, schema: Any, path: str, depth: int) -> None:
    if schema is True:
        return
    if schema is False:
        raise InvalidInput(f"{path} is not allowed.", field=path)
    for broken in _broken_rules(value, schema):
        raise InvalidInput(f"{path} {broken}.", field=path)
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            _check(item, schema["items"], f"{path}[{index}]", depth + 1)
    if isinstance(value, dict):
        _check_object(value, schema, path, depth)


def _check_object(value: dict[str, Json], schema: dict[str, Any], path: str, depth: int) -> None:
    for name in schema.get("required", []):
        if name not in value:
            raise InvalidInput(f"{path}.{name} is missing.", field=f"{path}.{name}")
    properties = schema.get("properties", {})
    for name, item in value.items():
        _check(item, properties.get(name, schema.get("additionalProperties", True)), f"{path}.{name}", depth + 1)


def _broken_rules(value: Any, schema: dict[str, Any]) -> list[str]:
    types = schema.get("type")
    names = [types] if isinstance(types, str) else types or []
    if names and not any(TYPES[name](value) for name in names):
        return [f"must be {' or '.join(names)}, not {value!r:.80}"]
    broken = []
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        broken.append(f"must be one of {schema['enum']!r:.200}, not {value!r:.80}")
    if "const" in schema and not _same(value, schema["const"]):
        broken.append(f"must be {schema['const']!r:.80}, not {value!r:.80}")
    if TYPES["number"](value):
        broken += _outside(value, schema, "minimum", "maximum", "be")
    if isinstance(value, str):
        broken += _outside(len(value), schema, "minLength", "maxLength", "have a length of")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            broken.append(f"must match {schema['pattern']!r:.80}")
    if isinstance(value, list):
        broken += _outside(len(value), schema, "minItems", "maxItems", "have a length of")
    return broken


def _outside(size: float, schema: dict[str, Any], least: str, most: str, verb: str) -> list[str]:
    if least in schema and size < schema[least]:
        return [f"must {verb} {schema[least]:g} or more"]
    if most in schema and size > schema[most]:
        return [f"must {verb} {schema[most]:g} or less"]
    return []


def _same(one: Any, other: Any) -> bool:
    """In JSON, true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
