"""What a worker claims for its slots."""

from __future__ import annotations

from cortex_plane.clock import SystemClock
from cortex_plane.worker.slots import SlotPool


def pool() -> SlotPool:
    return SlotPool(("default",), ("shop", "mail"), 10, SystemClock())


def test_a_worker_gives_way_for_a_moment_when_a_job_that_does_not_fit_it_is_due() -> None:
    some = pool()
    some.give_way("shop", due=102.0)

    assert some.claimable(101.0) == ("shop", "mail")
    assert some.claimable(102.0) == ("mail",)
    assert some.claimable(102.9) == ("mail",)
    assert some.claimable(103.1) == ("shop", "mail")


def test_it_claims_between_two_such_moments() -> None:
    some = pool()
    for due in (102.0, 102.5, 110.0, 102.1):
        some.give_way("shop", due=due)

    assert [some.claimable(now) == ("mail",) for now in (102.0, 103.4, 103.6, 109.0, 110.5, 112.0)] == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]
