from __future__ import annotations
import pytest
from tests.contract.approval_scene import Desk
from tests.contract.support import Raw, Scene
pytestmark = pytest.mark.anyio

async def test_smoke(scene: Scene, raw: Raw) -> None:
    desk = Desk(scene, raw)
    await desk.with_notifier()
    ann = await desk.user("ann", display_name="Ann")
    request = await desk.asked(ann)
    print(await desk.stored(request))
    print(await desk.told(request))
    print(await desk.decide(request, ann))
    print(await desk.decide(request, ann))
    job = await scene.job(request.job_id)
    print(job)
    print(await desk.audited(request))
    for h in await scene.store.jobs.history(request.job_id): print(h)
    w = await scene.worker()
    [c] = await scene.claim(w)
    assert c.run_id == job.run_id
    print(await scene.store.jobs.runs(request.job_id))
    print(await raw("select * from cortex.queue_entry"))
    print(await desk.approvals.next_due_in(), await desk.approvals.due(10), await desk.approvals.expire(10))
    print(await desk.approvals.list(), len(await desk.approvals.list(open_only=False)), await desk.approvals.list(waiting_for=ann.id))
