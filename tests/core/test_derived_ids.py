"""Ids that follow from others: always the same, never two for one, and UUIDs of version 7 like all the rest."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.ids import derived_id, new_id

ORIGIN = "0197a1b2-0000-7000-8000-000000000001"


def test_the_same_origin_and_name_give_the_same_id() -> None:
    assert derived_id(ORIGIN, "a") == derived_id(ORIGIN, "a")
    assert len({derived_id(ORIGIN, "a"), derived_id(ORIGIN, "b"), derived_id(new_id(), "a"), ORIGIN}) == 4


@given(st.text(max_size=20))
def test_it_is_a_uuid_of_version_7_and_of_the_origins_moment(name: str) -> None:
    made = UUID(derived_id(ORIGIN, name))

    assert (made.version, made.variant) == (7, UUID(ORIGIN).variant)
    assert made.int >> 80 == UUID(ORIGIN).int >> 80
