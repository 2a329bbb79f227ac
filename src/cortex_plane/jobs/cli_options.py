"""The options of a submission on the command line and in the files of groups, made from the table of fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cortex_plane.cli.output import duration, duration_or_moment, moment
from cortex_plane.cli.planes import me
from cortex_plane.jobs.fields import FIELD, FIELDS, TEMPLATE_FIELDS, SubmissionField

METAVARS = {"number": "N", "duration": "TIME", "time": "WHEN", "duration or time": "WHEN"}
READERS = {"duration": duration, "time": moment, "duration or time": duration_or_moment}
A_WHILE = "90, 5m or 1h30m"
A_TIME = "2026-01-05T09:00 for UTC, or 2026-01-05T09:00+01:00"
FORMS = {"duration": A_WHILE, "time": A_TIME, "duration or time": f"{A_WHILE}, or {A_TIME}"}
"""What to write, for errors in files."""

FILE_FIELDS = tuple(each.name for each in FIELDS if each.scope in ("template", "job") and each.form != "policy")
"""Those that a group's file may set for a member."""


@dataclass(frozen=True, kw_only=True)
class OptionFlags:
    """The flags of a command: each class made from this one has an attribute for each of its fields."""

    def options(self) -> dict[str, Any]:
        """What was given, as options of the Python functions, signed with who gives it."""
        given = {name: value for name, value in vars(self).items() if value not in (None, ())}
        return {**{name: read(FIELD[name], value) for name, value in given.items()}, "created_by": me()}


def read(each: SubmissionField, value: Any) -> Any:
    """The value of text in the field's form; other values as they are. Raises InvalidInput for text of another form."""
    reader = READERS.get(each.form)
    return reader(value, each.name.replace("_", "-")) if reader and isinstance(value, str) else value


def _flags(name: str, fields: Iterable[SubmissionField], default: str = "") -> type[OptionFlags]:
    """`default` replaces what the table says to be the default."""
    flags = [_flag(each, default and each.default and default) for each in fields if each.help]
    # Without a module, cyclopts takes it for a builtin type.
    return make_dataclass(name, flags, bases=(OptionFlags,), namespace={"__module__": __name__}, frozen=True, kw_only=True)


def _flag(each: SubmissionField, default: str) -> tuple[str, Any, Any]:
    otherwise = default or each.default
    shown = Parameter(
        name=f"--{each.name.removesuffix('s')}" if each.form == "texts" else None,
        metavar=each.metavar or METAVARS[each.form],
        help=f"{each.help}; otherwise {otherwise}." if otherwise else f"{each.help}.",
        negative="",
    )
    match each.form:
        case "texts":
            return each.name, Annotated[tuple[str, ...], shown], field(default=())
        case "number":
            return each.name, Annotated[int | None, shown], field(default=None)
        case _:
            return each.name, Annotated[str | None, shown], field(default=None)


if TYPE_CHECKING:

    class JobFlags(OptionFlags): ...

    class TemplateFlags(OptionFlags): ...

    class OverrideFlags(OptionFlags): ...

else:
    JobFlags = _flags("JobFlags", FIELDS)
    TemplateFlags = _flags("TemplateFlags", TEMPLATE_FIELDS)
    OverrideFlags = _flags("OverrideFlags", FIELDS, "the template's")

OF_JOB, OF_TEMPLATE, OVERRIDES = JobFlags(), TemplateFlags(), OverrideFlags()
"""None given."""
