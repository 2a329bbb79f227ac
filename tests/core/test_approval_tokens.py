"""Tokens: taken apart by prefix and length, known by their hashes, shown to nobody."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.approvals.decisions import PREFIX, TOKEN_BYTES, hash_of, mint, parse
from cortex_plane.approvals.messages import button_data, button_meaning
from cortex_plane.errors import InvalidInput

ALPHABET = string.ascii_letters + string.digits + "_-"


@given(st.binary(min_size=TOKEN_BYTES, max_size=TOKEN_BYTES))
def test_every_token_that_is_minted_is_parsed_again(random_bytes: bytes) -> None:
    token = mint(random_bytes)

    assert parse(token.plaintext) == token
    assert len(token.plaintext) == len(PREFIX) + 43
    assert button_meaning(button_data("approved", token.plaintext)) == ("approved", token.plaintext)


def test_underscores_belong_to_the_payload() -> None:
    token = mint(b"\xff" * TOKEN_BYTES)

    assert token.plaintext == PREFIX + "_" * 42 + "8"
    assert parse(token.plaintext) == token


@given(st.binary(min_size=TOKEN_BYTES, max_size=TOKEN_BYTES), st.integers(0, 42), st.sampled_from(ALPHABET))
def test_a_token_with_one_changed_character_is_another_one_or_none(random_bytes: bytes, place: int, character: str) -> None:
    token = mint(random_bytes)
    at = len(PREFIX) + place
    changed = token.plaintext[:at] + character + token.plaintext[at + 1 :]
    found = parse(changed)

    assert changed == token.plaintext or found is None or found.hash != token.hash


@pytest.mark.parametrize(
    "given_token",
    [
        None,
        7,
        b"cortex_apr_1_" + b"A" * 43,
        "",
        PREFIX,
        PREFIX + "A" * 42,
        PREFIX + "A" * 44,
        "cortex_apr_2_" + "A" * 43,
        "cortex_apr_1-" + "A" * 43,
        "Cortex_apr_1_" + "A" * 43,
        PREFIX + "A" * 42 + "B",  # Not the last character of any 32 bytes.
        PREFIX + "A" * 42 + "\n",
        PREFIX + "A" * 43 + "\n",
        " " + PREFIX + "A" * 43,
        PREFIX + "A" * 42 + "=",
        PREFIX + "ä" * 43,
    ],
)
def test_what_cannot_be_a_token_is_none(given_token: object) -> None:
    assert parse(given_token) is None


def test_a_token_needs_exactly_its_entropy() -> None:
    with pytest.raises(InvalidInput):
        mint(b"short")


def test_no_text_of_a_token_shows_it() -> None:
    token = mint(bytes(range(TOKEN_BYTES)))
    secret = token.plaintext.removeprefix(PREFIX)

    assert secret not in repr(token) + str(token) + f"{token}"
    assert token.hash not in repr(token) + str(token)
    assert token.hash == hash_of(token.plaintext)
    assert len(token.hash) == 64
