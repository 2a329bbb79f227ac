"""Opens the record of a job that was begun: loads its checkpoint, checks everything, and hands over to the handler."""

from __future__ import annotations

import structlog

from cortex_plane.core.errors import CheckpointCorrupted, CodeChanged
from cortex_plane.core.jobs import Claimed
from cortex_plane.ports.store import Checkpoints
from cortex_plane.runtime.agents import AgentCode
from cortex_plane.runtime.durable.journal import Journal
from cortex_plane.runtime.durable.loading import Blob, blob_digests, check_blobs, checked_blob, journal_from
from cortex_plane.runtime.durable.recorder import Recorder, Services

log = structlog.get_logger()


async def resume(checkpoints: Checkpoints, claimed: Claimed, agent: AgentCode, agent_id: str, services: Services) -> Recorder:
    """Raises CheckpointCorrupted or CodeChanged when the job cannot go on; nothing is changed then."""
    stored = await checkpoints.load(claimed.job_id)
    if stored is None:
        raise CheckpointCorrupted("missing", "the job had a checkpoint when it was claimed, and has none now.")
    blob = checked_blob(stored)
    if _begins_anew(blob, agent, claimed):
        journal = Journal(seed=services.new_id(), state_version=agent.state_version)
    else:
        digests = blob_digests(blob)
        found = await checkpoints.blobs(claimed.job_id, digests) if digests else {}
        check_blobs(digests, found)
        journal = journal_from(blob, found, agent.state_migrations, agent.renamed_steps)
    return Recorder(claimed, agent_id, agent.config, agent.prompt_hash, services, journal, stored.checkpoint_id)


def _begins_anew(blob: Blob, agent: AgentCode, claimed: Claimed) -> bool:
    """What the agent's author wants when its system prompt has changed since the checkpoint was written."""
    if blob["memory_context"]["system_prompt_hash"] == agent.prompt_hash:
        return False
    log.warning("system_prompt_changed", job_id=claimed.job_id, agent=claimed.job_type, policy=agent.on_prompt_change)
    match agent.on_prompt_change:
        case "continue":
            return False
        case "restart":
            return True
        case "fail":
            raise CodeChanged(
                "start",
                f'The system prompt of agent "{claimed.job_type}" has changed since this job began; its policy is to fail then. '
                'To start it anew: cortex jobs retry ID. To go on instead: on_prompt_change="continue".',
            )
