"""The fields of a submission: one table of their checks, their columns and their names over HTTP and on the command line.

A new field is a line in `Submission`, in the options below it and in `FIELDS`; if templates hold it, also in `TemplateFields`.
The checks of `submission.py`, the names over HTTP, the options of commands, the files of groups and the options of templates
are made from the table. `ARCHITECTURE.md` lists the other files to open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, Literal, TypedDict, get_args
from uuid import UUID

from cortex_plane.clock import EARLIEST, LATEST, instant
from cortex_plane.errors import InvalidInput, check_options
from cortex_plane.jobs.model import DEFAULT_TENANT, INTERNAL_QUEUE, KeyMode
from cortex_plane.jobs.retry import RetryPolicy, check_max_retries, check_policy
from cortex_plane.people.model import checked_noun_name

PRIORITY_LIMIT = 1_000_000
TAG_LIMIT = 50
LONGEST_DELAY = timedelta(days=36_500)
PAYLOAD_LIMIT_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Submission:
    """What a caller asks for. None means: as the agent says."""

    agent: str
    payload: Mapping[str, Any] | None = None
    queue: str | None = None
    priority: int = 0
    run_at: datetime | None = None
    delay: float | timedelta | None = None
    job_key: str | None = None
    key_mode: KeyMode = "replace"
    serial_key: str | None = None
    tenant: str = DEFAULT_TENANT
    tags: Sequence[str] = ()
    max_retries: int | None = None
    retry: RetryPolicy | None = None
    run_timeout: float | timedelta | None = None
    """How long one run of it may take."""
    deadline: datetime | float | timedelta | None = None
    """When the job must have ended, its waits included: a time, or how long after its submission."""
    created_by: str | None = None
    session: str | None = None
    """The id of the conversation that it comes from: its user is asked where an approval names nobody."""
    cancel_with_parent: bool = False
    """For a child of another job: it is cancelled when that one fails or is cancelled."""


SUBMISSION_OPTIONS = frozenset(each.name for each in fields(Submission)) - {"agent", "payload"}
NEVER_NONE = frozenset(each.name for each in fields(Submission) if each.default is not None)


class _LastingOptions(TypedDict, total=False):
    queue: str | None
    priority: int
    tags: Sequence[str]
    max_retries: int | None
    retry: RetryPolicy | None
    run_timeout: float | timedelta | None
    tenant: str
    created_by: str | None


class TemplateOptions(_LastingOptions, total=False):
    """Options of `templates.save`."""

    deadline: float | timedelta | None


class SubmitOptions(_LastingOptions, total=False):
    """Options of one submission, besides the arguments of the agent."""

    run_at: datetime | None
    delay: float | timedelta | None
    job_key: str | None
    key_mode: KeyMode
    serial_key: str | None
    deadline: datetime | float | timedelta | None
    session: str | None
    cancel_with_parent: bool
    connection: Any


# -- checks ------------------------------------------------------------------------------------
# Each takes a value and the field to name in an error; it returns what the column holds.


def checked_limit(length: float | timedelta | None, field: str) -> float | None:
    """In seconds."""
    if length is None:
        return None
    seconds = _seconds(length, field)
    if not 0 < seconds <= LONGEST_DELAY.total_seconds():
        raise InvalidInput(f"{field} must be more than 0 seconds, and at most 100 years, not {seconds:g} s.", field=field)
    return seconds


def check_priority(value: int, field: str = "priority") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -PRIORITY_LIMIT <= value <= PRIORITY_LIMIT:
        raise InvalidInput(
            f"{field} must be a whole number from -{PRIORITY_LIMIT:,} to {PRIORITY_LIMIT:,}, not {value!r}. Higher runs first.",
            field=field,
        )
    return value


def check_queue(value: str, field: str = "queue") -> str:
    if value == INTERNAL_QUEUE:
        raise InvalidInput(f'Queue "{INTERNAL_QUEUE}" is the plane\'s own. Choose another name.', field=field)
    return checked_noun_name(value, field)


def _key_mode(mode: KeyMode, field: str) -> KeyMode:
    if mode not in get_args(KeyMode):
        raise InvalidInput(f"{field} must be one of {', '.join(get_args(KeyMode))}, not {mode!r:.80}.", field=field)
    return mode


def _session(value: str, field: str) -> str:
    try:
        return str(UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(f"{field} must be the id of a session, not {value!r:.80}.", field=field) from None


def _time(value: datetime, field: str) -> int:
    if not isinstance(value, datetime):
        raise InvalidInput(f"{field} must be a datetime, not {value!r:.80}.", field=field)
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    if not EARLIEST <= moment <= LATEST:
        raise InvalidInput(
            f"{field} is {moment.isoformat()}; it must lie between {EARLIEST:%Y} and {LATEST:%Y}. "
            "Were milliseconds taken for seconds?",
            field=field,
        )
    return instant(moment)


def _delay(delay: float | timedelta, field: str) -> float:
    seconds = _seconds(delay, field)
    if not 0 <= seconds <= LONGEST_DELAY.total_seconds():
        raise InvalidInput(f"{field} must be from 0 seconds to 100 years, not {seconds:g} s.", field=field)
    return seconds


def _deadline(value: datetime | float | timedelta, field: str) -> float | None:
    return _time(value, field) if isinstance(value, datetime) else checked_limit(value, field)


def _tags(tags: Sequence[str], field: str) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Sequence) or len(tags) > TAG_LIMIT:
        raise InvalidInput(f"{field} must be a list of at most {TAG_LIMIT} texts.", field=field)
    return tuple(checked_noun_name(tag, f"{field}[{index}]") for index, tag in enumerate(tags))


def _flag(value: bool, field: str) -> bool:
    return bool(value)


def _seconds(value: float | timedelta, field: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidInput(f"{field} must be a number of seconds or a timedelta, not {value!r:.80}.", field=field)
    return float(value)


# -- the table ---------------------------------------------------------------------------------


Form = Literal["text", "texts", "number", "flag", "duration", "time", "duration or time", "policy"]

Scope = Literal["template", "job", "caller", "child"]
"""
template    set for many jobs: templates hold it too
job         belongs to a single job
caller      over HTTP it follows from the key and the address
child       set by handlers for the children of their job; not accepted over HTTP
"""


@dataclass(frozen=True, slots=True)
class SubmissionField:
    name: str
    """In Python and in the files of groups."""
    scope: Scope
    check: Callable[[Any, str], Any]
    form: Form = "text"
    column: str = ""
    """Of the job. Otherwise as over HTTP."""
    help: str = ""
    """On the command line. Without it, commands do not take the field."""
    default: str = ""
    """What holds on the command line when the option is left out."""
    metavar: str = ""

    @property
    def http_names(self) -> tuple[str, ...]:
        """A deadline is `deadline_at` or `deadline_seconds`, a delay `delay_seconds`."""
        match self.form:
            case "duration":
                return (f"{self.name}_seconds",)
            case "duration or time":
                return (f"{self.name}_at", f"{self.name}_seconds")
            case _:
                return (self.name,)

    def http_name(self, value: Any) -> str:
        return self.http_names[0 if isinstance(value, datetime) else -1]

    def column_of(self, value: Any) -> str:
        return self.column or self.http_name(value)

    @property
    def in_template(self) -> str:
        """Its name in a stored template, where a deadline is a length of time."""
        return self.column if self.form == "policy" else self.http_names[-1]


FIELDS = (
    SubmissionField("queue", "template", check_queue, help="The queue", default="the agent's own", metavar="NAME"),
    SubmissionField("priority", "template", check_priority, "number", help="Higher runs first", default="0"),
    SubmissionField(
        "max_retries", "template", check_max_retries, "number", help="How often to try again", default="as the agent says"
    ),
    SubmissionField("retry", "template", check_policy, "policy", column="retry_policy"),
    SubmissionField(
        "run_timeout",
        "template",
        checked_limit,
        "duration",
        column="timeout_seconds",
        help="How long one run may take: 90, 5m, 1h",
    ),
    SubmissionField(
        "deadline",
        "template",
        _deadline,
        "duration or time",
        help="How long a job may take, its waits included: 2h, 3d; for a single job also until when: 2026-01-05T18:00",
    ),
    SubmissionField("tags", "template", _tags, "texts", help="A label; may be given again", metavar="TAG"),
    SubmissionField("delay", "job", _delay, "duration", help="Begin only after this long: 90, 90s, 5m, 1h30m, 2d"),
    SubmissionField("run_at", "job", _time, "time", help="Begin only then: 2026-01-05T09:00 is in UTC, or add +01:00"),
    SubmissionField("job_key", "job", checked_noun_name),
    SubmissionField("key_mode", "job", _key_mode),
    SubmissionField("serial_key", "job", checked_noun_name, help="Of jobs with the same key one runs at a time", metavar="KEY"),
    SubmissionField(
        "session",
        "job",
        _session,
        column="session_id",
        help="The session it comes from: its user is asked where a gate names nobody",
        metavar="ID",
    ),
    SubmissionField("tenant", "caller", checked_noun_name),
    SubmissionField("created_by", "caller", checked_noun_name),
    SubmissionField("cancel_with_parent", "child", _flag, "flag"),
)
FIELD = {field.name: field for field in FIELDS}
TEMPLATE_FIELDS = tuple(field for field in FIELDS if field.scope == "template")


def checked_options(asked: Submission) -> dict[str, Any]:
    """What was asked for, by column. Raises InvalidInput for the first field that is wrong."""
    given = ((field, getattr(asked, field.name)) for field in FIELDS)
    checked = {
        field.column_of(value): field.check(value, field.name)
        for field, value in given
        if value is not None or field.name in NEVER_NONE
    }
    if "run_at" in checked and "delay_seconds" in checked:
        raise InvalidInput("Give run_at or delay, not both.", field="run_at")
    if "run_at" in checked and "deadline_at" in checked and checked["deadline_at"] <= checked["run_at"]:
        raise InvalidInput("deadline must be later than run_at, or the job could never run.", field="deadline")
    return checked


@dataclass(frozen=True, kw_only=True)
class TemplateFields:
    """What a template holds, by its name over HTTP. None means: as the agent says."""

    queue: str | None
    priority: int
    max_retries: int | None
    retry_policy: RetryPolicy | None
    run_timeout_seconds: float | None
    deadline_seconds: float | None
    tags: list[str]


def template_json(asked: Submission) -> dict[str, Any]:
    """The options that a template stores. Raises InvalidInput for the first one that is wrong."""
    checked = checked_options(asked)
    return {field.in_template: in_json(checked.get(field.column_of(0))) for field in TEMPLATE_FIELDS}


def template_fields(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of TemplateFields. One that a template stored before the field existed is None."""
    found = {field.in_template: (field, stored.get(field.in_template)) for field in TEMPLATE_FIELDS}
    return {
        name: RetryPolicy.from_json(value) if field.form == "policy" and value is not None else value
        for name, (field, value) in found.items()
    }


def template_options(template: TemplateFields) -> dict[str, Any]:
    """The same as options of a submission."""
    return {field.name: getattr(template, field.in_template) for field in TEMPLATE_FIELDS}


def in_json(value: Any) -> Any:
    """A checked value as JSON in the database."""
    match value:
        case RetryPolicy():
            return value.to_json()
        case tuple():
            return list(value)
        case _:
            return value


# -- names of options --------------------------------------------------------------------------


def refuse_timeout(options: Mapping[str, Any]) -> None:
    """The name of two different limits elsewhere, so it is not one here."""
    if "timeout" in options:
        raise InvalidInput(
            'There is no option "timeout". Did you mean run_timeout= (one run) or deadline= (the whole job)?', field="timeout"
        )


def check_submit_options(taker: str, options: Mapping[str, Any], *others: str) -> None:
    """Raises InvalidInput for the first one that is neither an option of submissions nor one of `others`."""
    refuse_timeout(options)
    check_options(taker, options, (*SUBMISSION_OPTIONS, "connection", *others))


def check_template_options(taker: str, options: Mapping[str, Any]) -> None:
    """Raises InvalidInput for the first one that a template does not hold."""
    refuse_timeout(options)
    for name in options:
        if name == "connection" or (name in FIELD and FIELD[name].scope in ("job", "child")):
            raise InvalidInput(f"{name} belongs to a single job. Give it when you submit from the template.", field=name)
    check_options(taker, options, TemplateOptions.__annotations__)
    if isinstance(options.get("deadline"), datetime):
        raise InvalidInput(
            "A template takes a deadline as a length of time, counted from the submission of each job.", field="deadline"
        )
