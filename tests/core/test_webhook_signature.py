"""Signatures, by the example of Standard Webhooks, and secrets."""

from __future__ import annotations

import pytest

from cortex_plane.errors import InvalidInput
from cortex_plane.webhooks.model import check_secret, new_secret, signature

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_signature_is_the_one_that_the_standards_example_gives() -> None:
    signed = signature(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_new_secret_is_one_that_may_be_given() -> None:
    assert check_secret(new_secret(bytes(32))) == new_secret(bytes(32))


@pytest.mark.parametrize("length", [0, 23, 65])
def test_a_secret_that_is_too_short_or_too_long_is_refused(length: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_secret(new_secret(bytes(length)))

    assert refused.value.field == "secret"
