"""Wrong words on the command line, said in plain English, with the help page to read."""

from __future__ import annotations

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

KINDS = {int: "a whole number", float: "a number"}


def usage_message(error: CycloptsError) -> str:
    command = " ".join(["cortex", *(error.command_chain or ())])
    return "\n".join([_what_is_wrong(error), *_advice(error, command), f"For help: {command} --help"])


def _advice(error: CycloptsError, command: str) -> list[str]:
    if isinstance(error, UnknownOptionError) and command == "cortex jobs submit":
        return ["An agent's own arguments are written without dashes: name=Ada"]
    return []


def _what_is_wrong(error: CycloptsError) -> str:
    error.verbose = False
    match error:
        case UnusedCliTokensError() if error.unused_tokens:
            return f'"{error.unused_tokens[0]}" is one word too many.'
        case UnknownCommandError() if error.unused_tokens and error.unused_tokens[0].startswith("-"):
            return f'There is no option "{error.unused_tokens[0]}" here. Options come after the command.'
        case MissingArgumentError() if error.argument is not None:
            name = error.keyword or error.argument.name
            return f"{name} needs a value." if name.startswith("-") else f"{name.upper()} is missing."
        case CoercionError(token=token, target_type=kind) if token is not None and kind in KINDS:
            return f'{token.keyword or "This"} must be {KINDS[kind]}, not "{token.value}".'
        case _:
            return str(error)
