"""A mail server in one line: what it says, what it leaves out, and that nothing of it is repeated."""

from __future__ import annotations

import pytest

from cortex_plane.errors import InvalidInput
from cortex_plane.integrations.email.model import MailServer, mail_server


@pytest.mark.parametrize(
    ("url", "server"),
    [
        (
            "smtp://bot:geheim@mail.example.com?from=plane@example.com",
            MailServer("mail.example.com", 587, "plane@example.com", "bot", "geheim", "starttls"),
        ),
        (
            "smtps://bot%40example.com:a%2Fb@mail.example.com?from=Plane%20%3Cplane@example.com%3E",
            MailServer("mail.example.com", 465, "Plane <plane@example.com>", "bot@example.com", "a/b", "tls"),
        ),
        (
            "smtp://localhost:1025?from=plane@example.com&tls=none",
            MailServer("localhost", 1025, "plane@example.com", None, None, "none"),
        ),
    ],
)
def test_an_address_says_everything_about_a_server(url: str, server: MailServer) -> None:
    assert mail_server(url) == server


@pytest.mark.parametrize(
    "url",
    [
        "mail.example.com",
        "http://bot:geheim@mail.example.com?from=plane@example.com",
        "smtp://bot:geheim@?from=plane@example.com",
        "smtp://bot:geheim@mail.example.com",
        "smtp://bot:geheim@mail.example.com?from=geheim",
        "smtp://bot:geheim@mail.example.com:x?from=plane@example.com",
        "smtp://bot:geheim@mail.example.com?from=plane@example.com&tls=geheim",
        "smtps://bot:geheim@mail.example.com?from=plane@example.com&tls=none",
        "smtp://bot:geheim@mail.example.com?from=plane@example.com&to=x",
        "smtp://[geheim?from=plane@example.com",
    ],
)
def test_what_is_wrong_is_said_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidInput, match="Write smtp://") as refused:
        mail_server(url)

    assert refused.value.field == "smtp_url"
    assert "geheim" not in str(refused.value)


def test_the_password_is_not_printed() -> None:
    assert "geheim" not in repr(mail_server("smtp://bot:geheim@mail.example.com?from=plane@example.com"))
