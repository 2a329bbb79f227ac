"""Validation by JSON Schema. Regular expressions are matched in linear time, and no references are fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

import structlog

from cortex_plane.errors import InvalidInput
from cortex_plane.json import KEY_LIMIT, PATH_LIMIT, dumped

log = structlog.get_logger()

MESSAGE_LIMIT = 300
DESCRIBED_ITEMS = 5_000
DESCRIBED_ITEMS_OF_A_TREE, DESCRIBED_LEVELS_OF_A_TREE = 100, 5
"""Limits for recursive schemas: an error message covers every path through the alternatives, and their number grows
exponentially with the depth. Nine levels of three alternatives took 2 s, and each further level three times as long."""
UUID = re.compile(r"(urn:uuid:)?\{?[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\}?")


Accepted = tuple[tuple[type, ...], list[str]]
"""Python types, and their names in messages."""
PLAIN: dict[str, tuple[tuple[type, ...], str]] = {
    "null": ((type(None),), "null"),
    "boolean": ((bool,), "true or false"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "string": ((str,), "text"),
    "array": ((list,), "a list"),
    "object": ((dict,), "an object"),
}


class JsonSchema:
    """A compiled schema of an object in canonical form."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._plain = _plain_types(schema)

    def check(self, document: Mapping[str, Any], name: str) -> None:
        """Raises InvalidInput with the path of the first invalid value."""
        if self._plain is None:
            self._check_whole(document, name)
            return
        for key, (kinds, said) in self._plain.items():
            if key in document and type(document[key]) not in kinds:
                words = " or ".join(said)
                raise InvalidInput(f"{name}.{key} must be {words}, not {document[key]!r:.60}.", field=f"{name}.{key}")

    @cached_property
    def _validator(self) -> Any:
        """None if the schema cannot be compiled, for example because of a pattern that is not linear. Nothing is rejected then;
        the program with the types finds invalid values."""
        try:
            return _validator_of(self._schema)
        except Exception as error:
            log.warning("schema_not_usable", error=f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT])
            return None

    def _check_whole(self, document: Mapping[str, Any], name: str) -> None:
        """For a large document or a deep tree, the error names only the argument: describing each invalid item takes seconds."""
        from jsonschema_rs import ValidationError

        if self._validator is None or self._validator.is_valid(document):
            return
        if not _can_be_described(self._schema, document):
            raise self._wrong_argument(document, name)
        try:
            self._validator.validate(document)
        except ValidationError as error:
            parts = (f"[{part}]" if isinstance(part, int) else f".{part[:KEY_LIMIT]}" for part in error.instance_path)
            path = (name + "".join(parts))[:PATH_LIMIT]
            raise InvalidInput(f"{path}: {_message(error)[:MESSAGE_LIMIT]}.", field=path) from None

    def _wrong_argument(self, document: Mapping[str, Any], name: str) -> InvalidInput:
        rest = {word: said for word, said in self._schema.items() if word not in ("properties", "required")}
        for key, said in self._schema.get("properties", {}).items():
            one = JsonSchema({**rest, "properties": {key: said}})._validator
            if key in document and one is not None and not one.is_valid({key: document[key]}):
                return InvalidInput(f"{name}.{key} does not match the type of this argument.", field=f"{name}.{key}")
        return InvalidInput(f"{name} does not match the types of the agent's arguments.", field=name)


def check_schema(schema: dict[str, Any], field: str = "editable") -> None:
    """Raises InvalidInput if this is not a JSON Schema, refers to another document, or has a pattern that is not linear."""
    try:
        _validator_of(schema)
    except Exception as error:
        problem = f"{error}".splitlines()[0] if f"{error}" else type(error).__name__
        raise InvalidInput(f"{field} is not a valid JSON Schema: {problem[:MESSAGE_LIMIT]}", field=field) from None


def check_document(schema: dict[str, Any], document: Any, name: str) -> None:
    """Raises InvalidInput with the path of the first invalid value."""
    _check_by(schema, document, name)


def _validator_of(schema: dict[str, Any]) -> Any:
    from jsonschema_rs import RegexOptions, validator_for

    formats = _formats() if b'"format"' in dumped(schema) else {}
    return validator_for(schema, formats=formats, validate_formats=True, offline=True, pattern_options=RegexOptions())


def _check_by(schema: dict[str, Any], document: Any, name: str) -> None:
    from jsonschema_rs import ValidationError

    validator = _validator_of(schema)
    if validator.is_valid(document):
        return
    if not _can_be_described(schema, document):
        raise InvalidInput(f"{name} does not match the schema.", field=name)
    try:
        validator.validate(document)
    except ValidationError as error:
        found = (*error.instance_path, *_named(error))
        parts = (f"[{part}]" if isinstance(part, int) else f".{part[:KEY_LIMIT]}" for part in found)
        path = (name + "".join(parts))[:PATH_LIMIT]
        raise InvalidInput(f"{path}: {_message(error)[:MESSAGE_LIMIT]}.", field=path) from None


def _can_be_described(schema: dict[str, Any], document: Any) -> bool:
    """Whether a detailed message can be built quickly. Validation alone is always fast."""
    items = dumped(document).count(b",")
    if not _is_recursive(schema):
        return items <= DESCRIBED_ITEMS
    return items <= DESCRIBED_ITEMS_OF_A_TREE and not _is_deeper(document, DESCRIBED_LEVELS_OF_A_TREE)


def _is_recursive(schema: dict[str, Any]) -> bool:
    """Whether a reference may lead back to itself. Only references to `$defs` are followed."""
    graph = {f"#/$defs/{name}": set(_references(said)) for name, said in schema.get("$defs", {}).items()}
    if not graph.keys() >= set(_references(schema)):
        return True
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


def _references(said: Any) -> Iterator[str]:
    if isinstance(said, dict):
        yield from (said[word] for word in ("$ref", "$dynamicRef", "$recursiveRef") if isinstance(said.get(word), str))
    for inner in said.values() if isinstance(said, dict) else said if isinstance(said, list) else ():
        yield from _references(inner)


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inner is not None and (levels == 0 or any(_is_deeper(one, levels - 1) for one in inner))


def _named(error: Any) -> list[str]:
    """The missing or unexpected key."""
    missing, unexpected = getattr(error.kind, "property", None), getattr(error.kind, "unexpected", None)
    return [missing] if isinstance(missing, str) else list(unexpected or ())[:1]


def _plain_types(schema: dict[str, Any]) -> dict[str, Accepted] | None:
    """The types of the properties, if the schema contains nothing else: then no library is imported. Otherwise None."""
    if isinstance(schema.get("additionalProperties"), dict):
        return None
    plain: dict[str, Accepted] = {}
    for name, said in schema.get("properties", {}).items():
        kinds = said.get("type", [])
        names = [kinds] if isinstance(kinds, str) else kinds
        if said.keys() - {"type", "default"} or any(kind not in PLAIN for kind in names):
            return None
        if names:
            plain[name] = tuple(kind for each in names for kind in PLAIN[each][0]), [PLAIN[each][1] for each in names]
    return plain


def _message(error: Any) -> str:
    """The message; for alternatives, the messages of all of them."""
    alternatives = getattr(error.kind, "context", None)
    if not alternatives:
        return str(error.message)
    return ", and ".join(dict.fromkeys(_message(each) for reasons in alternatives for each in reasons))


def _formats() -> dict[str, Any]:
    """Formats as pydantic parses them, because it parses the arguments: a datetime without a time zone is valid."""
    from datetime import date, datetime, time, timedelta

    from pydantic import TypeAdapter, ValidationError

    def reads(kind: Any) -> Any:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)

        def check(text: str) -> bool:
            try:
                adapter.validate_strings(text, strict=True)
            except ValidationError:
                return False
            return True

        return check

    kinds = {"date-time": datetime, "date": date, "time": time, "duration": timedelta}
    return {
        **{name: reads(kind) for name, kind in kinds.items()},
        "uuid": lambda text: UUID.fullmatch(text) is not None,
        "uri": lambda _: True,
        "email": lambda _: True,
    }
