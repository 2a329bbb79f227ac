"""Checkpoints are fenced like every other write of a worker, and by the checkpoint that they follow."""

from __future__ import annotations

import json

import pytest

from cortex_plane.durable.schema import Blob
from cortex_plane.errors import CortexError
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import BornWith, JobId
from cortex_plane.jobs.outcomes import Done, Interrupted
from cortex_plane.jobs.retry import Backoff, RetryPolicy
from cortex_plane.jobs.states import JobStatus
from tests.contract.support import BOOM, FATAL, Raw, Refused, Scene, again, ended, into, run_ids, snapshot

pytestmark = pytest.mark.anyio

ONE, TWO = Blob("1" * 64, '{"large":1}'), Blob("2" * 64, '{"large":2}')
BLOBS_REFUSE = [
    ("update cortex.job_blob set content = 'forged'", "never changed"),
    ("update cortex.job_blob set created_at = created_at", "never changed"),
    ("delete from cortex.job_blob", "go only with their whole job"),
]


async def document(scene: Scene, job_id: JobId) -> object:
    stored = await scene.store.checkpoints.load(job_id)
    return None if stored is None else json.loads(stored.document)


# -- the fence -----------------------------------------------------------------------------------


async def test_a_checkpoint_is_saved_only_by_the_open_run(scene: Scene) -> None:
    claimed = await scene.running()
    save = scene.store.checkpoints.save
    first = snapshot(claimed, '{"step":1}')
    assert await save([first]) == {claimed.run_id}

    assert await save([snapshot(claimed._replace(run_id=run_ids(1)[0]), '{"step":9}', first)]) == set()
    await scene.finish(claimed, Interrupted())
    assert await save([snapshot(claimed, '{"step":9}', first)]) == set()
    assert await document(scene, claimed.job_id) == {"step": 1}


async def test_a_zombie_saves_nothing_once_another_run_has_the_job(scene: Scene) -> None:
    zombie = await scene.running()
    first = snapshot(zombie, '{"step":1}', blobs=(ONE,))
    await scene.store.checkpoints.save([first])
    fresh = await again(scene, zombie)

    assert await scene.store.checkpoints.save([snapshot(zombie, '{"step":9}', first, blobs=(TWO,), cost_cents=9)]) == set()
    assert await scene.store.checkpoints.save([first]) == set(), "not even what it saved before"
    assert await scene.store.checkpoints.save([snapshot(fresh, '{"step":2}', first)]) == {fresh.run_id}
    assert await scene.store.checkpoints.blobs(zombie.job_id, [ONE.sha256, TWO.sha256]) == {ONE.sha256: ONE.content}
    assert (await scene.job(zombie.job_id)).cost_cents == 0


async def test_a_checkpoint_applies_only_after_the_one_that_it_names(scene: Scene) -> None:
    claimed = await scene.running()
    save = scene.store.checkpoints.save
    first, stranger = snapshot(claimed, '{"step":1}'), snapshot(claimed, '{"step":5}')
    assert await save([snapshot(claimed, '{"step":9}', stranger)]) == set(), "there is none yet"

    assert await save([first]) == {claimed.run_id}
    assert await save([snapshot(claimed, '{"step":9}')]) == set(), "there is one already"
    assert await save([snapshot(claimed, '{"step":9}', stranger)]) == set()
    second = snapshot(claimed, '{"step":2}', first)
    assert await save([second]) == {claimed.run_id}
    assert await save([first]) == set(), "the one before the last is no repetition"
    assert await document(scene, claimed.job_id) == {"step": 2}
    assert (await scene.job(claimed.job_id)).checkpoint_id == second.checkpoint_id


async def test_what_did_not_apply_leaves_no_blob_and_no_cost(scene: Scene) -> None:
    claimed = await scene.running()
    stranger = snapshot(claimed)
    await scene.store.checkpoints.save([snapshot(claimed, "{}", stranger, blobs=(ONE,), cost_cents=5)])

    assert await scene.store.checkpoints.blobs(claimed.job_id, [ONE.sha256]) == {}
    assert (await scene.job(claimed.job_id)).cost_cents == 0


async def test_the_same_write_repeated_is_saved_already_and_counts_its_cost_once(scene: Scene) -> None:
    """The answer to the first may have been lost."""
    claimed = await scene.running()
    first = snapshot(claimed, '{"step":1}', blobs=(ONE,), cost_cents=3)
    second = snapshot(claimed, '{"step":2}', first, blobs=(ONE, TWO), cost_cents=4)

    for checkpoint in (first, first, second, second, second):
        assert await scene.store.checkpoints.save([checkpoint]) == {claimed.run_id}

    assert (await scene.job(claimed.job_id)).cost_cents == 7
    assert await document(scene, claimed.job_id) == {"step": 2}
    assert len(await scene.store.checkpoints.blobs(claimed.job_id, [ONE.sha256, TWO.sha256])) == 2


async def test_the_cost_of_a_checkpoint_counts_towards_its_agent(scene: Scene) -> None:
    claimed = await scene.running()
    first = snapshot(claimed, cost_cents=3)
    await scene.store.checkpoints.save([first])
    await scene.store.checkpoints.save([snapshot(claimed, "{}", first, cost_cents=4)])
    await scene.store.queue.finish([ended(claimed, Done())._replace(cost_cents=5)], "test")

    assert (await scene.job(claimed.job_id)).cost_cents == 12
    assert [total.cents for total in await scene.store.costs.totals()] == [12]


async def test_a_batch_of_checkpoints_keeps_the_good_ones_and_names_them_by_run(scene: Scene) -> None:
    """The stale run and the open run of one job may meet in one batch; only one of them was saved."""
    stale = await scene.running()
    fresh = await again(scene, stale)

    assert await scene.store.checkpoints.save([snapshot(stale), snapshot(fresh)]) == {fresh.run_id}


async def test_blobs_of_a_batch_go_only_with_those_that_applied(scene: Scene) -> None:
    good, bad = await scene.running(), await scene.running()
    await scene.finish(bad, Interrupted())
    batch = [snapshot(good, blobs=(ONE,), cost_cents=2), snapshot(bad, blobs=(TWO,), cost_cents=2)]
    assert await scene.store.checkpoints.save(batch) == {good.run_id}

    assert await scene.store.checkpoints.blobs(good.job_id, [ONE.sha256, TWO.sha256]) == {ONE.sha256: ONE.content}
    assert await scene.store.checkpoints.blobs(bad.job_id, [ONE.sha256, TWO.sha256]) == {}


async def test_a_batch_is_saved_as_a_whole_or_not_at_all(scene: Scene) -> None:
    good, bad = await scene.running(), await scene.running()
    with pytest.raises(CortexError):
        await scene.store.checkpoints.save([snapshot(good, blobs=(ONE,)), snapshot(bad, "no JSON")])

    assert await scene.store.checkpoints.load(good.job_id) is None
    assert await scene.store.checkpoints.blobs(good.job_id, [ONE.sha256]) == {}


async def test_a_checkpoint_is_no_transition_and_writes_no_history(scene: Scene) -> None:
    claimed = await scene.running()
    before = await scene.store.jobs.history(claimed.job_id)
    await scene.clock.advance(seconds=1)
    await scene.store.checkpoints.save([snapshot(claimed, "[1,2]")])

    assert await scene.store.jobs.history(claimed.job_id) == before
    job = await scene.job(claimed.job_id)
    assert (job.run_id, job.updated_at) == (claimed.run_id, scene.now)


async def test_a_checkpoint_never_turns_the_time_of_its_job_back(scene: Scene) -> None:
    claimed = await scene.running()
    before = (await scene.job(claimed.job_id)).updated_at
    await scene.clock.advance(seconds=-60)
    await scene.store.checkpoints.save([snapshot(claimed)])

    assert (await scene.job(claimed.job_id)).updated_at == before


async def test_a_large_batch_of_checkpoints_is_saved_at_once(scene: Scene) -> None:
    for _ in range(200):
        await scene.submit()
    claimed = await scene.claim(await scene.worker(), 200)
    saved = await scene.store.checkpoints.save([snapshot(one, blobs=(ONE, TWO)) for one in claimed])

    assert saved == {one.run_id for one in claimed}


# -- reading -------------------------------------------------------------------------------------


async def test_what_was_saved_is_loaded_with_what_it_must_fit_to(scene: Scene) -> None:
    claimed = await scene.running()
    assert await scene.store.checkpoints.load(claimed.job_id) is None
    assert await scene.store.checkpoints.load(JobId(new_id())) is None
    saved = snapshot(claimed, '{"b":[1.5,null,"ä\\n"],"c":{}}')
    await scene.store.checkpoints.save([saved])

    stored = await scene.store.checkpoints.load(claimed.job_id)

    assert stored is not None
    assert (stored.job_id, stored.agent_id, stored.job_type) == (claimed.job_id, await scene.agent(), "echo")
    assert stored.checkpoint_id == saved.checkpoint_id
    assert json.loads(stored.document) == json.loads(saved.document)


async def test_a_document_that_was_written_by_hand_is_loaded_without_an_id(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()
    await raw(f"""update cortex.job set checkpoint = '{{"by":"hand"}}' where id = '{claimed.job_id}'""")

    stored = await scene.store.checkpoints.load(claimed.job_id)

    assert stored is not None
    assert (stored.checkpoint_id, json.loads(stored.document)) == (None, {"by": "hand"})


async def test_blobs_come_back_as_they_were_given_and_only_to_their_job(scene: Scene) -> None:
    first, second = await scene.running(), await scene.running()
    odd = Blob("3" * 64, '{"order": [3,  1], "a": 1.0}')
    await scene.store.checkpoints.save([snapshot(first, blobs=(ONE, odd)), snapshot(second, blobs=(TWO,))])

    assert await scene.store.checkpoints.blobs(first.job_id, [odd.sha256, TWO.sha256]) == {odd.sha256: odd.content}
    assert await scene.store.checkpoints.blobs(first.job_id, []) == {}


async def test_checkpoints_of_jobs_that_have_not_ended_are_listed_by_id(scene: Scene, raw: Raw) -> None:
    claimed = [await scene.running() for _ in range(6)]
    await scene.running()
    await scene.store.checkpoints.save([snapshot(one, f'{{"n":{n}}}') for n, one in enumerate(claimed)])
    await scene.finish(claimed[1], Done())
    await scene.finish(claimed[2], Interrupted())
    waiting = f"update cortex.job set {into(JobStatus.WAITING_FOR_APPROVAL, raw)} where id = '{claimed[3].job_id}'"
    await raw(waiting)

    first = await scene.store.checkpoints.live(None, 3)
    rest = await scene.store.checkpoints.live(first[-1].job_id, 3)

    assert [json.loads(one.document)["n"] for one in first + rest] == [0, 2, 3, 4, 5]
    assert await scene.store.checkpoints.live(rest[-1].job_id, 3) == []


# -- a claim says whether there is something to resume from --------------------------------------


async def test_a_claim_says_that_the_job_resumes(scene: Scene) -> None:
    claimed = await scene.running()
    assert not claimed.resumes
    await scene.store.checkpoints.save([snapshot(claimed)])

    fresh = await again(scene, claimed)

    assert fresh.resumes
    job = await scene.job(fresh.job_id)
    assert job.worker_id is not None
    assert [one.resumes for one in await scene.store.queue.open_runs(job.worker_id, [fresh.run_id])] == [True]


async def test_a_claim_under_limits_says_so_too(scene: Scene, raw: Raw) -> None:
    values = f"('queue', 'default', 5, {raw.now})"
    await raw(f"insert into cortex.control (scope, name, max_running, updated_at) values {values}")
    claimed = await scene.running()
    assert not claimed.resumes
    await scene.store.checkpoints.save([snapshot(claimed)])

    assert (await again(scene, claimed)).resumes


async def test_lost_and_broken_runs_say_so_too(scene: Scene) -> None:
    worker = await scene.worker()
    with_it, without = await scene.submit(), await scene.submit()
    claimed = await scene.claim(worker)
    await scene.store.checkpoints.save([snapshot(one) for one in claimed if one.job_id == with_it])
    await scene.store.workers.give_up(worker)

    lost = {run.claimed.job_id: run.claimed.resumes for run in await scene.store.workers.lost_runs(10)}

    assert lost == {with_it: True, without: False}


# -- forks and retries ---------------------------------------------------------------------------


async def test_a_fork_is_born_with_its_checkpoint_and_the_blobs_of_the_original(scene: Scene) -> None:
    original, forked = await scene.running(), JobId(new_id())
    await scene.store.checkpoints.save([snapshot(original, blobs=(ONE, TWO))])

    assert await scene.store.jobs.fork(original.job_id, forked, BornWith(new_id(), '{"step":1,"forked":true}'), "ada")

    assert await document(scene, forked) == {"step": 1, "forked": True}
    blobs = await scene.store.checkpoints.blobs(forked, [ONE.sha256, TWO.sha256])
    assert blobs == {ONE.sha256: ONE.content, TWO.sha256: TWO.content}
    [claimed] = await scene.claim(await scene.worker())
    assert (claimed.job_id, claimed.resumes) == (forked, True)
    stored = await scene.store.checkpoints.load(forked)
    assert stored is not None
    follower = snapshot(claimed, '{"step":2}', previous_id=stored.checkpoint_id, blobs=(ONE,))
    assert await scene.store.checkpoints.save([follower]) == {claimed.run_id}


async def test_a_fork_that_is_submitted_twice_is_one(scene: Scene) -> None:
    original = await scene.running()
    await scene.store.checkpoints.save([snapshot(original, blobs=(ONE,))])
    fork, born = JobId(new_id()), BornWith(new_id(), "{}")

    assert await scene.store.jobs.fork(original.job_id, fork, born, None)
    assert not await scene.store.jobs.fork(original.job_id, fork, born, None)

    assert len(await scene.store.checkpoints.blobs(fork, [ONE.sha256])) == 1
    assert len(await scene.store.jobs.list()) == 2


async def test_chain_and_resume_start_from_the_checkpoint_and_retry_does_not(scene: Scene) -> None:
    chain = RetryPolicy("chain", 2, Backoff(jitter=False))
    claimed = await scene.running(max_retries=1)
    await scene.store.checkpoints.save([snapshot(claimed, '{"step":1}', blobs=(ONE,))])
    before = await scene.store.checkpoints.load(claimed.job_id)
    await scene.finish(claimed, BOOM, chain)
    chained = (await scene.job(claimed.job_id)).retried_as
    assert chained is not None
    await scene.store.jobs.cancel(chained, None, None)
    resumed, retried = JobId(new_id()), JobId(new_id())
    assert await scene.store.jobs.resume(chained, resumed, "ada")
    await scene.store.jobs.cancel(resumed, None, None)
    assert await scene.store.jobs.retry(resumed, retried, "ada")

    assert before is not None
    for job_id in (chained, resumed):
        stored = await scene.store.checkpoints.load(job_id)
        assert stored is not None
        assert (stored.checkpoint_id, stored.document) == (before.checkpoint_id, before.document)
        assert await scene.store.checkpoints.blobs(job_id, [ONE.sha256]) == {ONE.sha256: ONE.content}
    assert await scene.store.checkpoints.load(retried) is None
    assert await scene.store.checkpoints.blobs(retried, [ONE.sha256]) == {}


# -- segments ------------------------------------------------------------------------------------


def sealed(last: int, first: int = 1) -> str:
    named = {"first": first, "last": last, "steps": 0, "logged": 0, "sha256": None}
    return json.dumps({"memory_context": {"working_data": {"$cortex": {"steps": {}, "sealed": named}}}})


def segment(number: int) -> Blob:
    return Blob(f"{number:064}", json.dumps({"segment": number}), number)


async def test_segments_are_saved_with_their_checkpoint_and_loaded_in_order(scene: Scene) -> None:
    claimed, other = await scene.running(), await scene.running()
    save, load = scene.store.checkpoints.save, scene.store.checkpoints.load
    first = snapshot(claimed, "{}", blobs=(segment(1), ONE))
    second = snapshot(claimed, "{}", first, blobs=tuple(segment(number) for number in range(12, 1, -1)))
    for batch in ([first], [second], [second], [snapshot(other, "{}", blobs=(segment(1),))]):
        assert len(await save(batch)) == 1

    stored = await load(claimed.job_id)
    assert stored is not None
    assert stored.segments == tuple(segment(number) for number in range(1, 13)), "the large result is none of them"
    assert [one.segments for one in await scene.store.checkpoints.live(None, 10)] == [None, None], "they are not read"
    newer = await load(claimed.job_id, 10)
    assert newer is not None
    assert newer.segments == (segment(11), segment(12))


async def test_segments_of_what_did_not_apply_are_not_kept(scene: Scene) -> None:
    zombie = await scene.running()
    first = snapshot(zombie, "{}", blobs=(segment(1),))
    await scene.store.checkpoints.save([first])
    fresh = await again(scene, zombie)

    assert await scene.store.checkpoints.save([snapshot(zombie, "{}", first, blobs=(segment(2),))]) == set()
    assert await scene.store.checkpoints.save([snapshot(fresh, "{}", None, blobs=(segment(2),))]) == set()
    stored = await scene.store.checkpoints.load(zombie.job_id)
    assert stored is not None
    assert stored.segments == (segment(1),)


async def test_a_number_is_given_to_one_segment_only(scene: Scene) -> None:
    claimed = await scene.running()
    first = snapshot(claimed, "{}", blobs=(segment(1),))
    await scene.store.checkpoints.save([first])
    forged = Blob("f" * 64, "{}", 1)
    with pytest.raises(CortexError):
        await scene.store.checkpoints.save([snapshot(claimed, "{}", first, blobs=(forged,))])

    stored = await scene.store.checkpoints.load(claimed.job_id)
    assert stored is not None
    assert stored.segments == (segment(1),)


@pytest.mark.parametrize("last", [0, 2, 3])
@pytest.mark.parametrize("kind", ["fork", "resume"])
async def test_a_job_that_is_born_with_a_checkpoint_is_given_the_segments_that_this_names(
    scene: Scene, kind: str, last: int
) -> None:
    origin, job_id, document = await scene.running(), JobId(new_id()), sealed(last) if last else "{}"
    blobs = (ONE, *(segment(number) for number in (1, 2, 3)))
    await scene.store.checkpoints.save([snapshot(origin, document, blobs=blobs)])
    await scene.finish(origin, FATAL)
    if kind == "fork":
        assert await scene.store.jobs.fork(origin.job_id, job_id, BornWith(new_id(), document), None)
    else:
        assert await scene.store.jobs.resume(origin.job_id, job_id, None)

    stored = await scene.store.checkpoints.load(job_id)
    assert stored is not None
    assert stored.segments == tuple(segment(number) for number in range(1, last + 1))
    assert await scene.store.checkpoints.blobs(job_id, [ONE.sha256]) == {ONE.sha256: ONE.content}


# -- what the database refuses -------------------------------------------------------------------


@pytest.mark.parametrize(("sql", "why"), BLOBS_REFUSE)
async def test_a_blob_never_changes_and_never_goes_alone(scene: Scene, raw: Raw, sql: str, why: str) -> None:
    claimed = await scene.running()
    await scene.store.checkpoints.save([snapshot(claimed, blobs=(ONE,))])
    with pytest.raises(Refused, match=why):
        await raw(sql)

    assert await scene.store.checkpoints.blobs(claimed.job_id, [ONE.sha256]) == {ONE.sha256: ONE.content}


async def test_a_blob_is_not_replaced_or_truncated_away(scene: Scene, raw: Raw) -> None:
    claimed = await scene.running()
    await scene.store.checkpoints.save([snapshot(claimed, blobs=(ONE,))])
    forged = f"('{claimed.job_id}', '{ONE.sha256}', 'forged', {raw.now})"
    columns = "(job_id, sha256, content, created_at)"
    sqlite = f"insert or replace into cortex.job_blob {columns} values {forged}"
    with pytest.raises(Refused, match="never changed"):
        await raw(sqlite if raw.kind == "sqlite" else "truncate cortex.job_blob")

    assert await scene.store.checkpoints.blobs(claimed.job_id, [ONE.sha256]) == {ONE.sha256: ONE.content}


async def test_blobs_go_with_their_job(scene: Scene, raw: Raw) -> None:
    """Also for a client that does not switch foreign keys on."""
    gone, kept = await scene.running(), await scene.running()
    await scene.store.checkpoints.save([snapshot(one, blobs=(ONE,)) for one in (gone, kept)])
    await scene.finish(gone, Done())
    await raw(f"delete from cortex.job where id = '{gone.job_id}'")

    assert [str(row[0]) for row in await raw("select job_id from cortex.job_blob")] == [kept.job_id]
