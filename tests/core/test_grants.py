"""Scopes: compared by their beginning, never split, never wider than what somebody holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.errors import Denied, InvalidInput
from cortex_plane.grants.model import allows, check_scopes, check_target, check_within, scope_of


@pytest.mark.parametrize(
    ("scope", "graph_id", "allowed"),
    [
        ("graph:execute:langgraph:poet", "langgraph:poet", True),
        ("graph:execute:langgraph:poet", "langgraph:poet:2", False),
        ("graph:execute:langgraph:poet", "langgraph", False),
        ("graph:execute:langgraph", "langgraph:poet", False),
        ("graph:execute:langgraph:*", "langgraph:poet", True),
        ("graph:execute:*", "langgraph:poet", True),
        ("graph:execute:*", "agent:report", True),
        ("graph:execute:*", "template:nightly", True),
        ("agent:run:report", "agent:report", True),
        ("agent:run:report", "report", False),
        ("agent:run:*", "agent:report", True),
        ("agent:run:*", "langgraph:poet", False),
        ("agent:run:*", "template:nightly", False),
        ("graph:execute:agent:report", "agent:report", True),
    ],
)
def test_a_scope_allows_what_it_names(scope: str, graph_id: str, allowed: bool) -> None:
    assert allows([scope], graph_id) is allowed


@pytest.mark.parametrize(
    "wrong", ["", "graph:execute:", "agent:run:", "graph:read:x", "agent:run:a*b", "x", "graph:execute:a\nb"]
)
def test_what_is_no_scope_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="is not a scope"):
        check_scopes([wrong])


@pytest.mark.parametrize("wrong", ["", "agent:", "template: ", "agent:*", "a*"])
def test_what_is_no_target_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="target must be"):
        check_target(wrong)


NAMES = st.text(alphabet="ab:", min_size=1, max_size=5)
SCOPES = st.builds(
    lambda kind, name, star: f"{kind}{name}{star}",
    st.sampled_from(["graph:execute:", "agent:run:"]),
    NAMES,
    st.sampled_from(["", "*"]),
)


@given(held=SCOPES, wanted=SCOPES, graph_id=st.one_of(NAMES, NAMES.map(lambda name: f"agent:{name}")))
def test_nobody_can_grant_what_allows_more_than_they_hold(held: str, wanted: str, graph_id: str) -> None:
    try:
        check_within([wanted], [held])
    except Denied:
        return
    assert not allows([wanted], graph_id) or allows([held], graph_id)


@given(NAMES)
def test_the_narrowest_scope_allows_its_target(name: str) -> None:
    for graph_id in (name, f"agent:{name}", f"template:{name}"):
        assert allows([scope_of(graph_id)], graph_id)
