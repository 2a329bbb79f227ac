"""Settings: a file, then the environment, then arguments; every problem at once."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cortex_plane.errors import InvalidInput
from cortex_plane.settings import DESCRIPTIONS, SECRETS, Settings, load_settings


def load(tmp_path: Path, file: str = "", environment: dict[str, str] | None = None, **arguments: Any) -> Settings:
    path = tmp_path / "cortex.toml"
    path.write_text(file)
    return load_settings(arguments, environment or {}, path)


def problems(tmp_path: Path, file: str = "", environment: dict[str, str] | None = None, **arguments: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        load(tmp_path, file, environment, **arguments)
    return str(refused.value)


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    assert load_settings({}, {}, tmp_path / "missing.toml") == Settings()
    assert load(tmp_path) == Settings()


def test_the_environment_goes_before_the_file_and_arguments_go_before_both(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        'concurrency = 1\nlease_seconds = 1\ngrace_seconds = 1\nlog_level = "debug"',
        {"CORTEX_LEASE_SECONDS": "2", "CORTEX_GRACE_SECONDS": "2"},
        grace_seconds=3,
    )

    assert (settings.concurrency, settings.lease_seconds, settings.grace_seconds) == (1, 2.0, 3.0)
    assert settings.log_level == "debug"


def test_an_argument_that_is_none_and_a_variable_that_is_empty_say_nothing(tmp_path: Path) -> None:
    settings = load(tmp_path, "concurrency = 7", {"CORTEX_CONCURRENCY": ""}, concurrency=None)

    assert settings.concurrency == 7


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("true", True), ("YES", True), ("0", False), ("False", False), ("no", False)]
)
def test_yes_and_no_have_several_words_in_the_environment(tmp_path: Path, text: str, value: bool) -> None:
    assert load(tmp_path, "", {"CORTEX_LOG_JSON": text}).log_json is value


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    message = problems(
        tmp_path,
        'concurency = 3\nlog_level = "loud"',
        {"CORTEX_LEASE_SECONDS": "soon", "CORTEX_DATABSE_URL": "x", "CORTEX_LOG_JSON": "perhaps"},
        concurrency=0,
        grace_seconds=-1,
    )

    assert 'Did you mean "concurrency"?' in message
    assert 'Did you mean "CORTEX_DATABASE_URL"?' in message
    assert "lease_seconds must be a number, not 'soon'" in message
    assert "log_json must be true or false" in message
    assert "concurrency must be more than 0" in message
    assert "grace_seconds must be 0 or more" in message
    assert "log_level must be debug, info, warning or error, not 'loud'" in message
    assert len(message.splitlines()) == 8


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    assert "cortex.toml cannot be read" in problems(tmp_path, "concurrency = = 3")


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    assert load(tmp_path, "", {"CORTEX_POSTGRES_BIN": "/bin", "PATH": "/bin", "CORTEXT": "1"}) == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_seconds", "nan"),
        ("lease_seconds", "inf"),
        ("grace_seconds", "nan"),
        ("event_loop_timeout", "nan"),
        ("concurrency", "-1"),
        ("concurrency", "1.5"),
        ("payload_limit_bytes", "0"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_by_name(tmp_path: Path, name: str, value: str) -> None:
    assert name in problems(tmp_path, "", {f"CORTEX_{name.upper()}": value})


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("concurrency = 1.5", "concurrency"),
        ("concurrency = true", "concurrency"),
        ("lease_seconds = true", "lease_seconds"),
        ("database_url = 5", "database_url"),
        ("log_json = 3", "log_json"),
        ("[database_url]\nhost = 1", "database_url"),
    ],
)
def test_a_value_of_another_kind_in_the_file_is_refused_and_not_bent(tmp_path: Path, line: str, name: str) -> None:
    assert f"{name} must be" in problems(tmp_path, line)


def test_an_argument_that_is_no_setting_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    assert 'Did you mean "concurrency"?' in problems(tmp_path, concurency=3)


def test_every_setting_is_described() -> None:
    assert list(DESCRIPTIONS) == [field.name for field in fields(Settings)]


def test_secrets_are_shown_nowhere(tmp_path: Path) -> None:
    names = {"internal_api_token", "internal_api_previous_token", "internal_jwt_secret", "internal_jwt_previous_secret"}
    environment = {f"CORTEX_{name.upper()}": f"a-secret-that-is-long-enough-{name}" for name in names}
    settings = load(tmp_path, "", environment)

    assert names <= SECRETS
    assert "a-secret" not in repr(settings)
    message = problems(tmp_path, "internal_api_token = 5", internal_jwt_secret="short-secret", internal_jwt_audience="")
    assert "internal_api_token must be text, not a int" in message
    assert "internal_jwt_secret must be at least 32 ASCII characters" in message
    assert "internal_jwt_audience must not be empty" in message
    assert "short-secret" not in message


def test_an_execution_service_needs_a_secret(tmp_path: Path) -> None:
    url = "http://localhost:8700"
    assert "internal_api_token, or internal_jwt_secret" in problems(tmp_path, internal_api_url=url)
    assert load(tmp_path, internal_api_url=url, internal_api_token="x" * 16).internal_api_url == url
    assert load(tmp_path, internal_api_url=url, internal_jwt_secret="x" * 32).internal_api_url == url


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Settings().concurrency = 3  # type: ignore[misc]


# -- channels ------------------------------------------------------------------------------------


def refused(tmp_path: Path, name: str, value: Any) -> str:
    arguments: dict[str, Any] = {name: value}
    return problems(tmp_path, **arguments)


def test_no_secret_is_in_what_python_prints(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "database_url": "postgresql://me:geheim@host/db",
        "telegram_bot_token": "123456:geheim",
        "telegram_webhook_secret": "geheim",
        "discord_bot_token": "geheim",
        "slack_bot_token": "geheim",
        "slack_signing_secret": "geheim",
        "smtp_url": "smtp://bot:geheim@mail.example.com?from=plane@example.com",
        "internal_api_token": "geheim" * 3,
        "internal_api_previous_token": "geheim" * 3,
        "internal_jwt_secret": "geheim" * 6,
        "internal_jwt_previous_secret": "geheim" * 6,
        "api_key": "geheim",
        "seal_export": "https://bucket.example.com/?key=geheim",
        "seal_export_authorization": "geheim",
    }

    settings = load(tmp_path, **values)

    assert {name: getattr(settings, name) for name in values} == values
    assert "geheim" not in repr(settings)
    assert values.keys() - {"database_url"} == SECRETS


@pytest.mark.parametrize("name", sorted(SECRETS))
@pytest.mark.parametrize("value", [5, ["geheim"], {"geheim": 1}])
def test_a_secret_of_another_kind_is_not_repeated(tmp_path: Path, name: str, value: Any) -> None:
    message = refused(tmp_path, name, value)

    assert f"{name} must be text, not a {type(value).__name__}." in message
    assert "geheim" not in message


@pytest.mark.parametrize("name", ["public_url", "telegram_url", "discord_url", "slack_url"])
@pytest.mark.parametrize(
    "value",
    [
        "",
        "plane.example.com",
        "ftp://plane.example.com",
        "https://",
        "https://a b",
        "https://plane.example.com/?x=1",
        "https://é",
    ],
)
def test_an_address_that_is_none_is_refused_by_name(tmp_path: Path, name: str, value: str) -> None:
    assert f"- {name} " in refused(tmp_path, name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("telegram_bot_token", "geheim"),
        ("telegram_webhook_secret", "geheim!"),
        ("discord_bot_token", "ge heim"),
        ("discord_public_key", "ab"),
        ("slack_bot_token", "ge\nheim"),
        ("slack_signing_secret", "geheim é"),
        ("smtp_url", "geheim"),
    ],
)
def test_what_a_service_would_refuse_is_refused_at_the_start(tmp_path: Path, name: str, value: str) -> None:
    message = refused(tmp_path, name, value)

    assert f"- {name} " in message
    assert "heim" not in message
