"""All settings, in one frozen object: a file, then the environment, then arguments. Everything is checked at once."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from cortex_plane.errors import InvalidInput, did_you_mean
from cortex_plane.redaction import worth_hiding

PREFIX = "CORTEX_"
FILE = "cortex.toml"
SHORTEST_SERVICE_SECRET = 16
SHORTEST_JWT_SECRET = 32
DEFAULT_PORT = 8700


def _secret() -> str:
    """A setting that nobody is shown: not in reports, not in errors, not in what Python prints."""
    made: str = field(default="", repr=False, metadata={"secret": True})
    return made


TELEGRAM_URL = "https://api.telegram.org"
DISCORD_URL = "https://discord.com/api/v10"
SLACK_URL = "https://slack.com/api"


@dataclass(frozen=True, slots=True)
class Settings:
    database_url: str = field(default="sqlite:///cortex.db", repr=False)
    server: str = ""
    server_tenant: str = ""
    api_key: str = _secret()
    app: str = ""
    concurrency: int = 20
    internal_concurrency: int = 10
    lease_seconds: float = 15.0
    grace_seconds: float = 30.0
    event_loop_timeout: float = 120.0
    payload_limit_bytes: int = 1024 * 1024
    result_limit_bytes: int = 1024 * 1024
    result_max_bytes: int = 64 * 1024 * 1024
    checkpoint_warn_bytes: int = 512 * 1024
    checkpoint_limit_bytes: int = 1024 * 1024
    internal_api_url: str = ""
    internal_api_token: str = _secret()
    internal_api_previous_token: str = _secret()
    internal_api_requests_per_second: int = 100
    internal_jwt_secret: str = _secret()
    internal_jwt_previous_secret: str = _secret()
    internal_jwt_audience: str = "cortex-execution"
    data_dir: str = ".cortex"
    http_host: str = "127.0.0.1"
    http_port: int = DEFAULT_PORT
    allowed_hosts: str = ""
    secure_cookies: bool = False
    http_body_limit_bytes: int = 4 * 1024 * 1024
    http_header_timeout_seconds: float = 10.0
    http_body_timeout_seconds: float = 60.0
    http_streams: int = 500
    http_streams_per_caller: int = 25
    trusted_proxies: str = ""
    seal_export: str = _secret()
    seal_export_authorization: str = _secret()
    stream_seconds: float = 300.0
    approval_max_ttl_seconds: float = 31_536_000.0
    metrics_token: str = field(default="", repr=False)
    log_level: str = "info"
    log_json: bool = False
    public_url: str = f"http://localhost:{DEFAULT_PORT}"
    telegram_bot_token: str = _secret()
    telegram_webhook_secret: str = _secret()
    telegram_url: str = TELEGRAM_URL
    discord_bot_token: str = _secret()
    discord_public_key: str = ""
    discord_url: str = DISCORD_URL
    slack_bot_token: str = _secret()
    slack_signing_secret: str = _secret()
    slack_url: str = SLACK_URL
    smtp_url: str = _secret()

    @property
    def sends_messages(self) -> bool:
        """Approvers are told by chat or mail."""
        return bool(self.telegram_bot_token or self.discord_bot_token or self.slack_bot_token or self.smtp_url)

    def secrets(self) -> tuple[str, ...]:
        """The values of settings that are not shown, and the password in the address of the database."""
        hidden = [str(getattr(self, each.name)) for each in fields(self) if not each.repr]
        try:
            hidden.append(urlsplit(self.database_url).password or "")
        except ValueError:
            pass  # Whoever opens it says what is wrong with it.
        return worth_hiding(hidden)


SECRETS = frozenset(setting.name for setting in fields(Settings) if setting.metadata.get("secret"))

DESCRIPTIONS = {
    "database_url": "Where the data is: sqlite:///file.db or postgresql://user@host/database",
    "server": "Where a running cortex serve is: commands then go through its API, not to the database",
    "server_tenant": "Through a server: in which tenant, for a key that is good in several",
    "api_key": "Through a server: who asks, by the key that cortex keys add has shown",
    "app": "The default APP of the commands: file.py, file.py:plane or module:plane",
    "concurrency": "How many jobs a worker runs at a time",
    "internal_concurrency": "How many jobs of the plane's own (notifications, webhooks, slots) a worker runs besides those",
    "lease_seconds": "After this long without a heartbeat a worker counts as lost",
    "grace_seconds": "How long handlers may go on when a worker is asked to stop",
    "event_loop_timeout": "A worker whose event loop is blocked for this long ends itself",
    "payload_limit_bytes": "The largest payload of a job",
    "result_limit_bytes": "A result of a job that is larger is kept apart from its row, in job_blob",
    "result_max_bytes": "The largest result of a step or a job; one that is larger is refused, and its job fails",
    "checkpoint_warn_bytes": "A checkpoint that is larger is warned of",
    "checkpoint_limit_bytes": "A checkpoint that is larger is refused, and its job fails",
    "internal_api_url": "Where the execution service is that runs what schedules start; otherwise this process itself",
    "internal_api_token": "The secret that the execution service is called with, and accepts",
    "internal_api_previous_token": "Another one that it accepts, while they are exchanged",
    "internal_api_requests_per_second": "How many requests it takes from each caller in a second",
    "internal_jwt_secret": "What callers of the execution service sign their tokens with (HS256), instead of sending a secret",
    "internal_jwt_previous_secret": "Another one that it accepts, while they are exchanged",
    "internal_jwt_audience": "For whom such a token must be made (aud)",
    "data_dir": "The folder for logs and artifacts of runs",
    "http_host": "The address on which cortex serve listens",
    "http_port": "The port on which cortex serve listens",
    "allowed_hosts": "The names under which the API is reached, with commas between; * is any",
    "secure_cookies": "It is reached by HTTPS: cookies are sent over nothing else",
    "http_body_limit_bytes": "The largest body of a request",
    "http_header_timeout_seconds": "How long the head of a request may take to arrive",
    "http_body_timeout_seconds": "How long its body may take to arrive",
    "http_streams": "How many event streams one process serves at a time",
    "http_streams_per_caller": "How many of them one person or key may have open",
    "trusted_proxies": "Proxies whose X-Forwarded-For is believed, as addresses or networks with commas between: 10.0.0.0/8",
    "seal_export": "Where workers send the seals of the audit log: file:PATH, https://… (POST) or s3+https://…/ (PUT)",
    "seal_export_authorization": "The header Authorization for it; without it, s3+https:// is signed by AWS_ACCESS_KEY_ID",
    "stream_seconds": "How long an event stream goes on at most; who listens then asks again, from where it ended",
    "approval_max_ttl_seconds": "How long an approval may wait at most; an agent that asks for more is refused",
    "metrics_token": "Who may read /metrics from elsewhere: whoever sends it as bearer token",
    "log_level": "debug, info, warning or error",
    "log_json": "One JSON object for each line of the log",
    "public_url": "Where approvers reach the pages of this plane: messages lead there. Otherwise localhost, at http_port",
    "telegram_bot_token": "The bot that asks approvers on Telegram, as @BotFather shows it",
    "telegram_webhook_secret": "What Telegram sends with each click; without it messages have no buttons that decide",
    "telegram_url": "Where the Telegram Bot API is",
    "discord_bot_token": "The bot that asks approvers on Discord",
    "discord_public_key": "What clicks from Discord are checked with; without it messages have no buttons that decide",
    "discord_url": "Where Discord's API is",
    "slack_bot_token": "The app that asks approvers on Slack: xoxb-…",
    "slack_signing_secret": "What clicks from Slack are checked with; without it messages have no buttons that decide",
    "slack_url": "Where Slack's API is",
    "smtp_url": "The mail server: smtp://user:password@host:587?from=plane@example.com",
}

# Variables that belong to the family but are not settings of the plane.
OTHERS = {
    "CORTEX_ARTIFACTS",
    "CORTEX_ATTEMPT",
    "CORTEX_JOB_ID",
    "CORTEX_PAYLOAD",
    "CORTEX_PAYLOAD_FILE",
    "CORTEX_POSTGRES_BIN",
    "CORTEX_RUN_ID",
}


def load_settings(
    arguments: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    environment = os.environ if environment is None else environment
    problems: list[str] = []
    values = {
        **_from_file(file or Path(FILE), problems),
        **_from_environment(environment, problems),
        **_from_arguments(arguments or {}, problems),
    }
    values = {name: _converted(name, value, problems) for name, value in values.items()}
    _check(values, problems)
    if problems:
        raise InvalidInput("These settings are wrong:\n" + "\n".join(f"  - {problem}" for problem in problems))
    if values.get("http_port") and "public_url" not in values:
        values["public_url"] = local_url(values["http_port"])
    return Settings(**values)


def local_url(port: int) -> str:
    """Where the pages are for whoever is on this machine."""
    return f"http://localhost:{port}"


def on_port(settings: Settings, port: int, **others: Any) -> Settings:
    """The same on another port; links follow it, unless they lead elsewhere on purpose."""
    follows = settings.public_url in (local_url(settings.http_port), local_url(DEFAULT_PORT))
    return replace(settings, http_port=port, public_url=local_url(port) if follows else settings.public_url, **others)


def _names() -> list[str]:
    return [setting.name for setting in fields(Settings)]


def _from_file(path: Path, problems: list[str]) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        problems.append(f"{path} cannot be read: {error}")
        return {}
    unknown = [name for name in found if name not in _names()]
    problems += [f"{path} has {name!r}, which is not a setting.{did_you_mean(name, _names())}" for name in unknown]
    return {name: value for name, value in found.items() if name not in unknown}


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    known = {PREFIX + name.upper(): name for name in _names()}
    for name in environment:
        if name.startswith(PREFIX) and name not in known and name not in OTHERS:
            problems.append(f"{name} is not a setting.{did_you_mean(name, known)}")
    return {known[name]: value for name, value in environment.items() if name in known and value != ""}


def _from_arguments(arguments: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    given = {name: value for name, value in arguments.items() if value is not None}
    problems += [f"{name} is not a setting.{did_you_mean(name, _names())}" for name in given if name not in _names()]
    return {name: value for name, value in given.items() if name in _names()}


def _converted(name: str, value: Any, problems: list[str]) -> Any:
    kind = get_type_hints(Settings)[name]
    if type(value) is kind or (kind is float and type(value) is int):
        return kind(value)
    try:
        if isinstance(value, str):
            return _BOOLEANS[value.lower()] if kind is bool else kind(value)
    except (ValueError, KeyError):
        pass
    shown = f"a {type(value).__name__}" if name in SECRETS else repr(value)
    problems.append(f"{name} must be {_A_KIND[kind]}, not {shown}.")
    return None


_A_KIND = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _check(values: dict[str, Any], problems: list[str]) -> None:
    for name in (
        "concurrency",
        "internal_concurrency",
        "lease_seconds",
        "event_loop_timeout",
        "payload_limit_bytes",
        "result_limit_bytes",
        "result_max_bytes",
        "checkpoint_warn_bytes",
        "checkpoint_limit_bytes",
        "http_body_limit_bytes",
        "http_header_timeout_seconds",
        "http_body_timeout_seconds",
        "http_streams",
        "http_streams_per_caller",
        "stream_seconds",
        "approval_max_ttl_seconds",
        "internal_api_requests_per_second",
    ):
        value = values.get(name)
        if value is not None and not (isfinite(value) and value > 0):
            problems.append(f"{name} must be more than 0, not {value}.")
    grace = values.get("grace_seconds")
    if grace is not None and not (isfinite(grace) and grace >= 0):
        problems.append(f"grace_seconds must be 0 or more, not {grace}.")
    port = values.get("http_port")
    if port is not None and not 0 <= port <= 65_535:
        problems.append(f"http_port must be from 0 to 65,535, not {port}.")
    _check_proxies(values, problems)
    _check_service(values, problems)
    _check_server(values, problems)
    level = values.get("log_level", "info")
    if level not in ("debug", "info", "warning", "error"):
        problems.append(f"log_level must be debug, info, warning or error, not {level!r}.")
    _check_channels(values, problems)


def _check_proxies(values: dict[str, Any], problems: list[str]) -> None:
    from cortex_plane.http_client import networks

    try:
        networks(values.get("trusted_proxies") or "", "trusted_proxies")
    except InvalidInput as error:
        problems.append(str(error))


def _check_server(values: dict[str, Any], problems: list[str]) -> None:
    from cortex_plane.server_urls import checked_server

    try:
        if values.get("server"):
            values["server"] = checked_server(values["server"], "server")
    except InvalidInput as error:
        problems.append(str(error))


def _check_channels(values: dict[str, Any], problems: list[str]) -> None:
    """What a service would refuse later, said now, and without repeating a secret."""
    for name in ("public_url", "telegram_url", "discord_url", "slack_url"):
        if values.get(name) is not None:
            problems += _wrong_address(name, values[name])
    for name, (form, what) in _FORMS.items():
        value = values.get(name)
        if value and not re.fullmatch(form, value):
            problems.append(f"{name} must be {what}.")
    if values.get("smtp_url"):
        problems += _wrong_mail_server(values["smtp_url"])


def _wrong_mail_server(value: str) -> list[str]:
    from cortex_plane.integrations.email.model import mail_server

    try:
        mail_server(value)
    except InvalidInput as error:
        return [str(error)]
    return []


def _wrong_address(name: str, value: str) -> list[str]:
    from cortex_plane.webhooks.model import check_url

    if len(value) > URL_LIMIT or not value.isascii() or "?" in value:
        return [f"{name} must be at most {URL_LIMIT} ASCII characters, without a question mark."]
    try:
        check_url(value, allow_private=True)
    except InvalidInput as error:
        return [f"{name}{str(error).removeprefix('url')}"]
    return []


URL_LIMIT = 400
_FORMS = {
    "api_key": (r"[!-~]+", "a key as cortex keys add shows it: ctx_…"),
    "telegram_bot_token": (r"[0-9]+:[A-Za-z0-9_-]+", "a bot's token as @BotFather shows it: 123456:ABC-DEF"),
    "telegram_webhook_secret": (r"[A-Za-z0-9_-]{1,256}", "1 to 256 letters, digits, _ and -, as it was given to setWebhook"),
    "discord_bot_token": (r"[!-~]+", "text without spaces, as the developer portal shows it"),
    "discord_public_key": (r"[0-9a-fA-F]{64}", "the 64 hexadecimal digits that the developer portal shows"),
    "slack_bot_token": (r"[!-~]+", "text without spaces, as the app's page shows it: xoxb-…"),
    "slack_signing_secret": (r"[!-~]+", "text without spaces, as the app's page shows it"),
}


def _check_service(values: dict[str, Any], problems: list[str]) -> None:
    """Secrets are not repeated here: what is read here ends up in logs."""
    if values.get("internal_api_url") and not (values.get("internal_api_token") or values.get("internal_jwt_secret")):
        problems.append(
            "internal_api_url needs internal_api_token, or internal_jwt_secret, too: the service answers nobody without one."
        )
    for name, shortest in _SERVICE_SECRETS.items():
        value = values.get(name)
        if value and (len(value) < shortest or not re.fullmatch("[!-~]+", value)):
            problems.append(f"{name} must be at least {shortest} characters of ASCII without spaces.")
    if values.get("internal_jwt_audience") == "":
        problems.append("internal_jwt_audience must not be empty: a token that is good for anybody is good for us too.")


_SERVICE_SECRETS = {
    "internal_api_token": SHORTEST_SERVICE_SECRET,
    "internal_api_previous_token": SHORTEST_SERVICE_SECRET,
    "internal_jwt_secret": SHORTEST_JWT_SECRET,
    "internal_jwt_previous_secret": SHORTEST_JWT_SECRET,
}
