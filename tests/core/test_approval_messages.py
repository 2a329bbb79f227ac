"""What approvers are shown: cut to length, with nothing hidden in it, and no token where it does not belong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex_plane.approvals.messages import (
    Click,
    button_data,
    button_meaning,
    cut,
    details_of,
    lines,
    message_view,
    one_line,
    shortened,
    utf16_size,
    without_fences,
)
from cortex_plane.errors import InvalidInput
from tests.adapters.channels.messages import APPROVED, TOKEN, details, long_texts, message, messages, texts


@pytest.mark.parametrize("decision", ["approved", "denied"])
def test_a_button_carries_decision_and_token_in_the_64_bytes_that_telegram_has(decision: Any) -> None:
    data = button_data(decision, TOKEN)

    assert len(data.encode()) == 58
    assert button_meaning(data) == (decision, TOKEN)


@pytest.mark.parametrize("data", [None, 7, "", "a:", f"x:{TOKEN}", f"a:{TOKEN}x", f"a:{TOKEN[:-1]}", f"a:{TOKEN}\n"])
def test_what_is_not_our_button_means_nothing(data: object) -> None:
    assert button_meaning(data) is None


@given(st.text())
def test_no_text_breaks_the_reading_of_buttons(data: str) -> None:
    assert button_meaning(data) is None


@pytest.mark.parametrize("token", ["", "cortex_apr_1_short", f"{TOKEN}x", f"{TOKEN[:-1]}<", None])
def test_a_message_needs_a_token_of_the_right_form_and_does_not_repeat_a_wrong_one(token: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        message(token=token, page_url="https://a.example", approve_url="https://a.example", deny_url="https://a.example")

    assert refused.value.field == "token"
    assert not token or token not in str(refused.value)


@pytest.mark.parametrize("field", ["approve_url", "deny_url", "page_url"])
@pytest.mark.parametrize(
    "begin", ["", "javascript:", "ftp://a.b/", "https:///", 'https://a.b/"', "https://a.b/ ", "https://[x/", "x" * 500]
)
def test_links_that_are_not_web_addresses_are_refused_by_name_and_not_repeated(field: str, begin: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        message(**{field: begin + TOKEN})

    assert refused.value.field == field
    assert TOKEN not in str(refused.value)


def test_neither_token_nor_links_are_in_a_repr() -> None:
    shown = repr(message()) + repr(Click(TOKEN, "approved", "1", None, "https://hooks.example/secret"))

    assert TOKEN not in shown
    assert "https://" not in shown


@given(messages)
def test_what_is_kept_of_a_message_holds_no_token(sent: Any) -> None:
    assert TOKEN not in json.dumps(message_view(sent))
    assert set(message_view(sent)) == {"title", "summary", "agent", "job_id"}


def test_a_message_that_is_sent_anew_has_another_key() -> None:
    again = message(token=TOKEN[:-1] + "R")

    assert message().key == message().key != again.key
    assert TOKEN not in message().key


# -- text ----------------------------------------------------------------------------------------


@given(long_texts, st.integers(-5, 300))
def test_the_longest_beginning_that_fits_is_kept(text: str, limit: int) -> None:
    kept = cut(text, limit)

    assert text.startswith(kept)
    assert utf16_size(kept) <= max(limit, 0)
    assert kept == text or limit <= 0 or utf16_size(text[: len(kept) + 1]) > limit


@given(long_texts, st.integers(1, 300))
def test_what_is_shortened_fits_and_says_so(text: str, limit: int) -> None:
    kept = shortened(text, limit)

    assert utf16_size(kept) <= limit
    assert kept == text or kept.endswith("…")


@given(texts)
def test_size_is_that_of_utf_16(text: str) -> None:
    assert utf16_size(text) == len(text.encode("utf-16-le")) // 2


@given(st.text())
def test_what_cannot_be_seen_is_replaced_by_a_sign(text: str) -> None:
    assert not set(lines(text)) & set("\x00\x1b\x7f\x85\u200b\u200e\u202a\u202e\u2028\u2029\u2066\u2069\ufeff\U000e0041")
    assert "\n" not in one_line(text)


def test_a_line_that_would_be_read_backwards_is_not() -> None:
    assert one_line("Delete \u202etset\u202c\tnow\r\n") == "Delete \ufffdtset\ufffd now"
    assert one_line("👩\u200d💻") == "👩\u200d💻"


@given(details, st.integers(0, 400))
def test_details_are_the_json_itself_or_a_beginning_of_it_with_a_note(value: Any, limit: int) -> None:
    shown = details_of(value, limit)

    assert utf16_size(shown.text) <= limit
    assert shown.text.isascii() or "\u202e" not in shown.text
    if not shown.note and shown.text:
        assert json.loads(shown.text) == value
    if shown.note:
        assert "the page shows them all" in shown.note


@given(details)
def test_nothing_ends_a_block_of_code_and_the_json_stays_the_same(value: Any) -> None:
    fenced = without_fences(details_of(value, 1_000_000).text)

    assert "```" not in fenced
    assert not fenced or json.loads(fenced) == value


@pytest.mark.parametrize("value", [None, {}, []])
def test_no_details_are_not_shown(value: Any) -> None:
    assert details_of(value, 100) == ("", "")


def test_a_closed_message_says_who_decided() -> None:
    assert (APPROVED.headline, APPROVED.remark, APPROVED.time) == ("✅ Approved by Alice", "", "2026-01-05 09:00 UTC")
