"""Keeps one run's journal and writes it: the handler goes on only when what it did is durable."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import structlog

from cortex_plane.core.agents import AgentConfig
from cortex_plane.core.approvals import ApprovalId, ApprovalRequest, Approvers
from cortex_plane.core.checkpoints import Checkpoint
from cortex_plane.core.errors import CheckpointTooLarge
from cortex_plane.core.gates import Names
from cortex_plane.core.instants import as_short_text
from cortex_plane.core.jobs import AgentId, Claimed, JobId, TenantId
from cortex_plane.core.states import JobStatus
from cortex_plane.operations.submit_jobs import Submission
from cortex_plane.ports.clock import Clock, NewId, Random
from cortex_plane.ports.json_text import dumped
from cortex_plane.ports.telemetry import Telemetry
from cortex_plane.runtime.durable import additions
from cortex_plane.runtime.durable.journal import Journal
from cortex_plane.runtime.durable.scopes import Scopes
from cortex_plane.runtime.durable.snapshot import SCHEMA_VERSION, sealed
from cortex_plane.runtime.durable.suspending import RunStopped, Suspension
from cortex_plane.runtime.reporter import Reporter

log = structlog.get_logger()

NO_PROMPT_HASH = hashlib.sha256(b"").hexdigest()

Fault = Callable[[str, str], None]
"""For tests: called with a moment and a name, it may raise to end the worker there."""

ChildState = tuple[JobId, JobStatus, Any, Any]
"""The last job of the child's retry chain: its id, status, output and error."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """From which size on a checkpoint is warned of, and from which refused."""

    warn_bytes: int = 512 * 1024
    limit_bytes: int = 1024 * 1024


DEFAULT_SIZES = Sizes()


@dataclass(frozen=True, slots=True)
class Services:
    """What a worker lends to the runs in it."""

    save: Callable[[Checkpoint], Awaitable[None]]
    submit: Callable[[Claimed, Submission, JobId], Awaitable[None]]
    child: Callable[[JobId], Awaitable[ChildState | None]]
    approvers: Callable[[TenantId, Names | None, str], Awaitable[Approvers]]
    approval: Callable[[ApprovalId], Awaitable[ApprovalRequest | None]]
    clock: Clock
    new_id: NewId
    random: Random
    reporter: Reporter
    files: Path
    sizes: Sizes
    fault: Fault | None = None
    telemetry: Telemetry | None = None


class Recorder:
    def __init__(
        self,
        claimed: Claimed,
        agent_id: str,
        config: AgentConfig,
        prompt_hash: str,
        services: Services,
        journal: Journal | None = None,
        last_id: str | None = None,
    ) -> None:
        self.claimed, self.config, self.services = claimed, config, services
        self.journal = journal or Journal(seed=services.new_id())
        self.scopes = Scopes()
        self.last_id = last_id
        self.agent_id, self._prompt_hash = AgentId(agent_id), prompt_hash
        self._built_cents = self.journal.durable_cents
        self._stopped: Exception | None = None
        self.suspension: Suspension | None = None
        self.largest_bytes = 0

    def now(self) -> int:
        return self.services.clock.now()

    def stop(self, cause: Exception) -> NoReturn:
        """Nothing durable happens in this run any more, whatever the handler catches."""
        self._stopped = cause
        raise RunStopped(cause)

    def suspend(self, suspension: Suspension) -> NoReturn:
        """Whatever the handler catches, it is left here."""
        self.suspension = suspension
        raise suspension

    def check(self) -> None:
        if self._stopped is not None:
            raise RunStopped(self._stopped)
        if self.suspension is not None:
            raise self.suspension

    @property
    def stopped(self) -> RunStopped | None:
        return None if self._stopped is None else RunStopped(self._stopped)

    def reach(self, moment: str, name: str) -> None:
        if self.services.fault is not None:
            self.services.fault(moment, name)

    async def save(self, step: str, status: str = "in_progress") -> None:
        """Returns when everything in the journal is durable; otherwise the run ends here."""
        self.check()
        self.reach("before_save", step)
        try:
            checkpoint = self.snapshot(step, status)
            await self.services.save(checkpoint)
        except Exception as error:
            self.stop(error)
        self.check()

    def snapshot(self, step: str, status: str) -> Checkpoint:
        journal, now = self.journal, self.now()
        journal.begin_log(now)
        checkpoint_id = self.services.new_id()
        fields = {
            "checkpoint_id": checkpoint_id,
            "agent_id": self.agent_id,
            "created_at": as_short_text(now),
            "schema_version": SCHEMA_VERSION,
            "step_index": journal.step_index,
            "step_id": journal.step_id,
            "status": status,
        }
        parts = journal.whole_parts(self._prompt_hash)
        text, crc = sealed(fields | parts)
        size = len(text) if text.isascii() else len(text.encode())
        self._check_size(size, step)
        added = self._added(fields, parts, crc) if size >= additions.WHOLE_BELOW_BYTES else None
        if added is None:
            journal.written_whole()
        blobs, journal.new_blobs = tuple(journal.new_blobs), []
        cents = max(0, journal.spent[2] - self._built_cents)
        self._built_cents += cents
        previous, self.last_id = self.last_id, checkpoint_id
        journal.unwritten_failures.clear()
        return Checkpoint(self.claimed.job_id, self.claimed.run_id, checkpoint_id, previous, text, blobs, cents, added)

    def _added(self, fields: dict[str, Any], whole: dict[str, Any], crc: int) -> str | None:
        """What this checkpoint adds to the last whole one; None if it is to be written whole itself."""
        parts = self.journal.added_parts(whole)
        if parts is None:
            return None
        text = dumped({**fields, **parts, "crc32": crc})
        return text.decode() if len(text) <= additions.LONGEST_BYTES else None

    @property
    def unwritten_cents(self) -> int:
        """What was spent since the last checkpoint: it goes with the outcome."""
        return max(0, self.journal.spent[2] - self._built_cents)

    def _check_size(self, size: int, step: str) -> None:
        sizes = self.services.sizes
        if size > sizes.limit_bytes:
            raise CheckpointTooLarge(size, sizes.limit_bytes, step)
        self.largest_bytes = max(self.largest_bytes, size)
        if size > sizes.warn_bytes:
            log.warning("checkpoint_is_large", job_id=self.claimed.job_id, step=step, size_bytes=size, limit=sizes.limit_bytes)
