"""A stored job definition. A job made from it takes what it says at that moment; later changes do not reach the job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NewType

from cortex_plane.errors import NotFound, did_you_mean
from cortex_plane.jobs.fields import TemplateFields
from cortex_plane.jobs.model import TenantId

TemplateId = NewType("TemplateId", str)


@dataclass(frozen=True, kw_only=True)
class TemplateName:
    id: TemplateId
    tenant_id: TenantId
    name: str
    job_type: str


@dataclass(frozen=True, kw_only=True)
class NewTemplate(TemplateName):
    """A checked template. `params` and `options` are JSON text in normal form."""

    params: str
    options: str
    created_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Template(TemplateFields, TemplateName):
    """A template as the database holds it. `version` is counted up by every change."""

    params: dict[str, Any]
    version: int
    created_by: str | None
    changed_by: str | None
    """Who last changed what its jobs are. They stand behind those jobs: no self-approval."""
    created_at: datetime
    updated_at: datetime


class TemplateNotFound(NotFound):
    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = list(known)
        message = f'There is no template "{name}".{did_you_mean(name, names)}'
        message += " To see what there is: cortex templates list" if names else " No template has been saved yet."
        super().__init__(message)
        self.name = name
