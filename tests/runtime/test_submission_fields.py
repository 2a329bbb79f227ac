"""The table of submission fields agrees with all that is written out beside it."""

from __future__ import annotations

import re
from dataclasses import fields

from cortex_plane.groups.http import SubmitGroup
from cortex_plane.jobs.fields import (
    FIELD,
    FIELDS,
    SUBMISSION_OPTIONS,
    TEMPLATE_FIELDS,
    SubmitOptions,
    TemplateFields,
    TemplateOptions,
)
from cortex_plane.jobs.http_inputs import LastingFields, SubmissionFields, SubmitJob
from cortex_plane.jobs.model import NewJob
from cortex_plane.storage.statements import source
from cortex_plane.templates.http import SaveTemplate, SubmitTemplate

NOT_STORED = {"tenant", "key_mode"}
"""The tenant is looked up; the mode of a key ends with the submission."""


def test_python_takes_every_field() -> None:
    assert FIELD.keys() == SUBMISSION_OPTIONS
    assert SubmitOptions.__annotations__.keys() == FIELD.keys() | {"connection"}
    of_templates = {field.name for field in FIELDS if field.scope in ("template", "caller")}
    assert TemplateOptions.__annotations__.keys() == of_templates


def test_http_takes_every_field_of_a_caller() -> None:
    sent = {name for field in FIELDS if field.scope in ("template", "job") for name in field.http_names}

    assert SubmissionFields.model_fields.keys() == sent
    assert LastingFields.model_fields.keys() == {field.http_names[-1] for field in TEMPLATE_FIELDS}
    assert sent <= SubmitJob.model_fields.keys() & SubmitTemplate.model_fields.keys()
    assert LastingFields.model_fields.keys() <= SaveTemplate.model_fields.keys()
    assert SubmitGroup.model_fields["members"].annotation == list[SubmitJob]


def test_a_template_holds_every_field_that_lasts() -> None:
    assert [field.name for field in fields(TemplateFields)] == [field.in_template for field in TEMPLATE_FIELDS]


def test_every_column_is_submitted_on_both_stores() -> None:
    columns = {field.column or name for field in FIELDS if field.name not in NOT_STORED for name in field.http_names}

    assert columns <= set(NewJob.__slots__)
    for text in (source("jobs/submit", "sqlite"), source("jobs/submit", "postgres")):
        assert [column for column in columns if not re.search(rf"\b{column}\b", text)] == []
