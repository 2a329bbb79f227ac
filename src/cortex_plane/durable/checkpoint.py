"""Records results and writes checkpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import structlog

from cortex_plane.approvals.model import ApprovalId, ApprovalRequest, Approvers, Names
from cortex_plane.clock import Clock, Instant, Random, as_short_text
from cortex_plane.durable import segments
from cortex_plane.durable.cleanup import Cleaning, Guarded
from cortex_plane.durable.journal import Journal
from cortex_plane.durable.schema import RESERVED, SCHEMA_VERSION, Checkpoint, with_crc
from cortex_plane.durable.scopes import Scopes
from cortex_plane.durable.suspension import RunStopped, Suspension
from cortex_plane.durable.values import JSON, ValueType
from cortex_plane.errors import CheckpointTooLarge, InvalidInput, StepFailed
from cortex_plane.groups.model import GroupId
from cortex_plane.ids import NewId, derived_id
from cortex_plane.jobs.fields import Submission
from cortex_plane.jobs.model import AgentId, Claimed, Job, JobId, RunId, TenantId
from cortex_plane.json import MAX_DEPTH, NotJson, dumps, loads
from cortex_plane.queues.model import HoldScope
from cortex_plane.telemetry import Telemetry
from cortex_plane.worker.failures import BESIDES, PermanentFailure
from cortex_plane.worker.reporter import Reporter
from cortex_plane.worker.threads import in_a_thread

if TYPE_CHECKING:
    from cortex_plane.agents.model import AgentConfig
    from cortex_plane.durable.store import CheckpointStore

log = structlog.get_logger()

Result = TypeVar("Result")

NO_PROMPT_HASH = hashlib.sha256(b"").hexdigest()

Fault = Callable[[str, str], None]
"""For tests: called with a moment and a name, it may raise to end the worker there."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """From which size on a checkpoint is warned of, and from which refused."""

    warn_bytes: int = 512 * 1024
    limit_bytes: int = 1024 * 1024
    result_bytes: int = 64 * 1024 * 1024
    """The largest result of a step or a job."""
    output_bytes: int = 1024 * 1024
    """A larger result of a job is kept apart from its row."""


DEFAULT_SIZES = Sizes()
FINAL_CHECKPOINT_BYTES = 4 * segments.SEAL_ABOVE_BYTES


@dataclass(frozen=True, slots=True)
class RunServices:
    """The functions and objects of the worker that its runs use: storage, clock, ids, limits, telemetry."""

    checkpoints: CheckpointStore
    trace: Callable[[JobId], Awaitable[tuple[str | None, str | None]]]
    save: Callable[[Checkpoint], Awaitable[None]]
    submit: Callable[[Claimed, Submission, JobId, str], Awaitable[None]]
    submit_group: Callable[..., Awaitable[tuple[GroupId, list[JobId]]]]
    child: Callable[[JobId], Awaitable[Job | None]]
    """The last job of the child's retry chain."""
    resume_child: Callable[[Claimed, JobId], Awaitable[JobId]]
    adopt: Callable[[JobId, JobId], Awaitable[None]]
    hold: Callable[[Claimed, HoldScope, float, str], Awaitable[None]]
    approvers: Callable[[TenantId, Names | None, str], Awaitable[Approvers]]
    approval: Callable[[ApprovalId], Awaitable[ApprovalRequest | None]]
    set_cleanup: Callable[[JobId, RunId, float | None], Awaitable[bool]]
    repeats: Callable[[JobId], Awaitable[bool]]
    """Whether the job replaces another job that may already have made its tool calls."""
    store_now: Callable[[], Awaitable[Instant]]
    clock: Clock
    new_id: NewId
    random: Random
    reporter: Reporter
    files: Path
    sizes: Sizes
    agent_ids: Mapping[str, str] = field(default_factory=dict)
    """By job type."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint of each agent's code, by job type."""
    fault: Fault | None = None
    reworded: Callable[[str], None] | None = None
    """For replays: receives the name of an approval that would be requested again. The replay continues as if it was
    approved."""
    telemetry: Telemetry | None = None
    lease_holds: Callable[[], bool] = lambda: True
    """Whether no other worker can have taken over by now."""


class Recorder:
    def __init__(
        self,
        claimed: Claimed,
        agent_id: str,
        config: AgentConfig,
        prompt_hash: str,
        services: RunServices,
        journal: Journal | None = None,
        last_id: str | None = None,
    ) -> None:
        self.claimed, self.config, self.services = claimed, config, services
        self.journal = journal or Journal(seed=services.new_id())
        self.cleaning = Cleaning(self)
        self.scopes = Scopes(_begins(self.journal, self.cleaning))
        self.last_id = last_id
        self.agent_id, self._prompt_hash = AgentId(agent_id), prompt_hash
        self._built_cents = self.journal.durable_cents
        self._built_order = self.journal.order
        self._stopped: Exception | None = None
        self.suspension: Suspension | None = None
        self.did_not_fit = False
        """This code was tried on this record before, in vain."""
        self.largest_bytes = 0
        self.unawaited: dict[Any, str] = {}
        """Calls that the handler created but did not await, and cleanup scopes that it did not enter, with the path of their
        place."""
        self._is_warned = False
        self._unwritten = 0
        self._repeats: bool | None = None

    def now(self) -> int:
        return self.services.clock.now()

    def invocation_id(self, key: str) -> str:
        """The id of a tool call, and the seed of a child's ids. Deterministic: the same in every run of this job and in jobs
        that replace it."""
        return derived_id(self.claimed.effect_root or self.claimed.job_id, key)

    async def repeats(self) -> bool:
        """Whether a call that is not recorded may have been made before, under the same id."""
        if self._repeats is None:
            takes_a_place = self.claimed.effect_root is not None and await self.services.repeats(self.claimed.job_id)
            self._repeats = self.journal.repeats or takes_a_place
        return self._repeats

    def stop(self, cause: Exception) -> NoReturn:
        """Stops the run: no durable call is made in it any more, even if the handler catches the exception."""
        self._stopped = cause
        raise RunStopped(cause)

    def suspend(self, suspension: Suspension) -> NoReturn:
        """Raised at every durable call once the run is stopped, even if the handler caught the first one."""
        self.cleaning.before_new_work()
        self.suspension = suspension
        raise suspension

    def check(self) -> None:
        if self._stopped is not None:
            raise RunStopped(self._stopped)
        if self.suspension is not None:
            raise self.suspension

    def guarded(self, work: Coroutine[Any, Any, Result]) -> Guarded[Result]:
        """Awaits a durable call so that an interruption is delivered after the call and not inside it."""
        return Guarded(self.cleaning, work)

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
        self._unwritten += 1
        try:
            checkpoint = self.snapshot(step, status)
            if self.cleaning.busy:
                await self.services.save(checkpoint)
            else:  # The end of an inline step.
                await Guarded(self.cleaning, self._save(checkpoint), counts=False)
            self._unwritten -= 1
        except PermanentFailure:
            raise
        except Exception as error:
            self.stop(error)
        self.check()

    async def _save(self, checkpoint: Checkpoint) -> None:
        await self.services.save(checkpoint)

    def snapshot(self, step: str, status: str, seal_above: int | None = None) -> Checkpoint:
        """The checkpoint to write now. If the document is long, settled entries move to a new segment, written with it."""
        journal, checkpoint_id = self.journal, self.services.new_id()
        text, cents = self._document(checkpoint_id, status)
        if len(text) > (seal_above or segments.SEAL_ABOVE_BYTES) and journal.seal():
            text, cents = self._document(checkpoint_id, status)
        self._check_size(len(text) if text.isascii() else len(text.encode()), step)
        blobs, journal.new_blobs = tuple(journal.new_blobs), []
        cost = max(0, cents - self._built_cents)
        self._built_cents += cost
        self._built_order = journal.order
        previous, self.last_id = self.last_id, checkpoint_id
        return Checkpoint(self.claimed.job_id, self.claimed.run_id, checkpoint_id, previous, text, blobs, cost)

    def _document(self, checkpoint_id: str, status: str) -> tuple[str, int]:
        """The text of the document, and the costs that it includes."""
        journal, now = self.journal, self.now()
        journal.begin_log(now)
        parts = journal.parts(self._prompt_hash)
        fields = {
            "checkpoint_id": checkpoint_id,
            "agent_id": self.agent_id,
            "created_at": as_short_text(now),
            "schema_version": SCHEMA_VERSION,
            "step_index": journal.step_index,
            "step_id": journal.step_id,
            "status": status,
        }
        return with_crc(fields | parts), parts["memory_context"]["working_data"][RESERVED]["spent_cents"]

    def final_checkpoint(self, status: str) -> Checkpoint | None:
        """The checkpoint that goes with the outcome, in one statement as long as it brings no segment."""
        return self.snapshot("end", status, FINAL_CHECKPOINT_BYTES)

    def final_checkpoint_of_failure(self, raised: BaseException | None, ends: bool) -> Checkpoint | None:
        """Removes the recorded failures with which the run ended, so that the next run repeats these calls. Keeps successes
        that were not written yet, inside a step for example. None if there is nothing to write, or if the last write has an
        unknown outcome."""
        again = [self.journal.try_again(key) for key in failed_calls(raised)]
        is_new = self.journal.order > self._built_order
        if self._unwritten or not (is_new or any(again) or (ends and self.last_id is not None)):
            return None
        return self.final_checkpoint("failed" if ends else "in_progress")

    @property
    def unwritten_cents(self) -> int:
        """Costs since the last checkpoint, written with the outcome."""
        return max(0, self.journal.spent[2] - self._built_cents)

    def _check_size(self, size: int, step: str) -> None:
        sizes = self.services.sizes
        if size > sizes.limit_bytes:
            raise CheckpointTooLarge(size, sizes.limit_bytes, step)
        self.largest_bytes = max(self.largest_bytes, size)
        if size > sizes.warn_bytes and not self._is_warned:
            self._is_warned = True
            log.warning("checkpoint_is_large", job_id=self.claimed.job_id, step=step, size_bytes=size, limit=sizes.limit_bytes)


def _begins(journal: Journal, cleaning: Cleaning) -> Callable[[str], None]:
    def begins(key: str) -> None:
        journal.begin(key)
        cleaning.begin()

    return begins


def failed_calls(raised: BaseException | None) -> list[str]:
    """The identities of the calls whose failure this exception is, was raised from, or contains.

    The cause of a failed call counts only if it failed inside that call: a handler that makes another call while it handles
    a failure has survived that failure."""
    found: dict[str, None] = {}
    left: list[tuple[BaseException | None, str]] = [(raised, "")]
    seen: set[int] = set()
    while left:
        error, inside = left.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        with suppress(Exception):  # A broken exception class may raise when its class is read.
            left += [(one, inside) for one in getattr(error, BESIDES, ())]
            if isinstance(error, StepFailed) and error.key is not None:
                if not error.key.startswith(inside):
                    continue
                found[error.key] = None
                inside = f"{error.key}/"
            inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
            left += [(one, inside) for one in (error.__cause__, error.__context__, *inner)]
    return list(found)


# -- results -----------------------------------------------------------------------------------
# Results of steps, tools and agents: checked against the annotation, encoded once, and of a size that can be stored.


SMALL_NODES = 2_000
SMALL_BYTES = 64 * 1024
"""Larger results are encoded in a separate thread so that the event loop keeps running. Not in asyncio's pool: handlers may
have filled it with calls that hang."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Converts a result to its stored form and to the value that its receiver gets, now and on replay."""

    text: str
    value: Any


async def encoded_result(value: Any, returns: ValueType, name: str, limit_bytes: int) -> Encoded:
    """`name` names the result in errors. Raises InvalidInput if the value cannot be stored or does not match `returns`."""
    if _is_small(value):
        return _encoded(value, returns, name, limit_bytes)
    encoded: Encoded = await in_a_thread(partial(_encoded_large, value, returns, name, limit_bytes))
    return encoded


def _encoded(value: Any, returns: ValueType, name: str, limit_bytes: int) -> Encoded:
    try:
        stored = returns.encode(value, name)
    except NotJson as error:
        hint = " Or say in the annotation what the function returns, such as `-> Invoice`: then that is what you get back."
        raise InvalidInput(f"{error}{hint if returns is JSON else ''}", field=error.field) from None
    text = dumps(stored)
    if len(text) > SMALL_BYTES and (size := len(text.encode())) > limit_bytes:
        raise too_large(name, f"{size:,}", limit_bytes)
    return Encoded(text, returns.decode(loads(text), name))


def _encoded_large(value: Any, returns: ValueType, name: str, limit_bytes: int) -> Encoded:
    if _exceeds(value, limit_bytes, limit_bytes):
        raise too_large(name, f"more than {limit_bytes:,}", limit_bytes)
    return _encoded(value, returns, name, limit_bytes)


def too_large(name: str, size: str, limit_bytes: int) -> InvalidInput:
    return InvalidInput(
        f"{name} is {size} bytes of JSON; the limit is {limit_bytes:,}. Store the data elsewhere, with ctx.artifact(...) for "
        "example, and return a reference, or raise CORTEX_RESULT_MAX_BYTES.",
        field=name,
    )


def _is_small(value: Any) -> bool:
    return value is None or isinstance(value, int | float) or not _exceeds(value, SMALL_NODES, SMALL_BYTES)


def _exceeds(value: Any, nodes: int, size: int) -> bool:
    """Whether the JSON has at least this many nodes or bytes. Stops as soon as that is known. Values nested too deeply, in a
    cycle for example, are left to the encoder to reject."""
    inside: list[Iterator[Any]] = [iter((value,))]
    while inside and len(inside) <= MAX_DEPTH:
        for one in inside[-1]:
            nodes -= 1
            if isinstance(one, str | bytes):
                size -= len(one)
            if nodes < 0 or size < 0:
                return True
            if isinstance(one, Mapping):
                inside.append(chain(one, one.values()))
                break
            if isinstance(one, list | tuple | set | frozenset):
                inside.append(iter(one))
                break
        else:
            inside.pop()
    return False
