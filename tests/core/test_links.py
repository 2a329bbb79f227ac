"""Whether links in messages can work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cortex_plane.approvals.views import problem_with_links
from cortex_plane.settings import Settings, load_settings, on_port


@pytest.mark.parametrize(
    ("url", "port", "messages", "says"),
    [
        ("http://localhost:8700", 8700, False, None),
        ("http://localhost:8080", 8700, False, "listens on port 8700"),
        ("http://127.0.0.1", 80, False, None),
        ("https://localhost", 8700, False, "listens on port 8700"),
        ("http://localhost:8700", 8700, True, "only this machine can reach"),
        ("https://cortex.example.com", 8700, True, None),
        ("http://localhost:8080", 0, False, None),
    ],
)
def test_links_that_cannot_work_are_known(url: str, port: int, messages: bool, says: str | None) -> None:
    problem = problem_with_links(url, port, messages_go_out=messages)

    assert (problem is None) == (says is None)
    assert says is None or (problem is not None and says in problem[0])


def test_links_lead_by_default_to_where_the_server_listens_by_default() -> None:
    usual = load_settings({}, {})

    assert problem_with_links(usual.public_url, usual.http_port, messages_go_out=False) is None
    assert usual.public_url == Settings().public_url


def test_links_follow_the_port_unless_they_lead_elsewhere_on_purpose() -> None:
    moved = load_settings({}, {"CORTEX_HTTP_PORT": "9000"})

    assert moved.public_url == "http://localhost:9000"
    assert on_port(moved, 9100).public_url == "http://localhost:9100"
    assert on_port(replace(moved, public_url="https://example.com"), 9100).public_url == "https://example.com"
