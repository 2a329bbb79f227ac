"""A neighbour's process is judged only where it can be known for certain."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cortex_plane import Plane
from cortex_plane.ids import new_id
from cortex_plane.jobs.model import WorkerId
from cortex_plane.jobs.states import WorkerStatus
from cortex_plane.stores import Store
from cortex_plane.worker import heartbeat as process_identity
from cortex_plane.worker.heartbeat import Identity, is_gone, own_process
from cortex_plane.worker.model import NewWorker
from cortex_plane.worker.rescue import declare_gone

pytestmark = pytest.mark.anyio


@pytest.fixture
def own() -> Identity:
    found = own_process()
    assert found is not None
    return found


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_process_that_lives_is_not_gone_and_one_that_ended_is(own: Identity) -> None:
    assert not is_gone(own, own)
    assert is_gone(own._replace(pid=ended_process()), own)


def test_a_pid_that_is_used_again_does_not_hide_the_end_of_its_first_owner(own: Identity) -> None:
    assert is_gone(own._replace(started=own.started - 1), own)


def test_a_process_that_waits_to_be_counted_has_ended(own: Identity) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = process_identity._started(process.pid)
    assert started is not None
    neighbour = own._replace(pid=process.pid, started=started)

    alive = is_gone(neighbour, own)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # It is left a zombie.

    assert (alive, is_gone(neighbour, own)) == (False, True)
    process.communicate()


def test_nobody_is_judged_from_another_machine_boot_or_container(own: Identity) -> None:
    ended = own._replace(pid=ended_process())

    assert not is_gone(ended._replace(host="another"), own)
    assert not is_gone(ended._replace(boot="another"), own)
    assert not is_gone(ended._replace(namespace="another"), own)


def test_nobody_is_judged_where_the_system_does_not_say_who_is_who(
    own: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_identity, "PROC", tmp_path)

    assert own_process() is None
    assert not is_gone(own, own)
    assert not is_gone(own._replace(pid=ended_process()), None)


async def test_only_workers_whose_process_is_gone_are_declared_lost(store: Store, own: Identity) -> None:
    gone, alive, unknown, elsewhere, by = (WorkerId(new_id()) for _ in range(5))
    ended = own._replace(pid=ended_process())
    processes = {
        gone: ended.to_text(),
        alive: own.to_text(),
        unknown: None,
        elsewhere: ended._replace(host="another").to_text(),
        by: own.to_text(),
    }
    for worker_id, process in processes.items():
        await store.workers.register(NewWorker(worker_id, "test", ("default",), (), 1, 15.0, process))

    declared = await declare_gone(store, by, own.machine, lambda process: is_gone(Identity.from_text(process), own))

    assert declared == 1
    assert {worker.id: worker.status for worker in await store.workers.list()} == {
        gone: WorkerStatus.LOST,
        alive: WorkerStatus.LIVE,
        unknown: WorkerStatus.LIVE,
        elsewhere: WorkerStatus.LIVE,
        by: WorkerStatus.LIVE,
    }


def test_a_plane_that_is_a_variable_of_a_module_is_found_there_and_another_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from cortex_plane.plane import place_of
    from tests import apps

    plane = Plane("sqlite:///:memory:")
    assert place_of(plane) is None
    monkeypatch.setattr(apps, "some_plane", plane, raising=False)
    assert place_of(plane) == "tests.apps:some_plane"
