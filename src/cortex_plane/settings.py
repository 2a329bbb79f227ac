"""Settings: read from cortex.toml, the environment and arguments, and validated together."""

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
    """A secret setting: hidden in reports, in errors and in the repr."""
    hidden: str = field(default="", repr=False, metadata={"secret": True})
    return hidden


TELEGRAM_URL = "https://api.telegram.org"
DISCORD_URL = "https://discord.com/api/v10"
SLACK_URL = "https://slack.com/api"


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a plane. `load_settings()` reads them; DESCRIPTIONS says what each one does."""

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
        """Whether a chat or e-mail channel for approvals is configured."""
        return bool(self.telegram_bot_token or self.discord_bot_token or self.slack_bot_token or self.smtp_url)

    def secrets(self) -> tuple[str, ...]:
        """The values to redact in logs: secret settings, and the password in the database URL."""
        hidden = [str(getattr(self, each.name)) for each in fields(self) if not each.repr]
        try:
            hidden.append(urlsplit(self.database_url).password or "")
        except ValueError:
            pass  # Opening the database reports the error.
        return worth_hiding(hidden)


SECRETS = frozenset(setting.name for setting in fields(Settings) if setting.metadata.get("secret"))

DESCRIPTIONS = {
    "database_url": "Database URL: sqlite:///file.db or postgresql://user@host/database",
    "server": "URL of a cortex serve; commands then use its API instead of the database",
    "server_tenant": "Tenant for commands through a server; required if the API key is valid in several",
    "api_key": "API key for commands through a server, from cortex keys add",
    "app": "Default APP of the commands: file.py, file.py:plane or module:plane",
    "concurrency": "Number of jobs that a worker runs in parallel",
    "internal_concurrency": "Number of internal jobs (notifications, webhooks, schedule slots) that a worker runs in addition",
    "lease_seconds": "Time without a heartbeat after which a worker is considered lost",
    "grace_seconds": "Time that running handlers have to finish when a worker stops",
    "event_loop_timeout": "Seconds after which a worker with a blocked event loop exits",
    "payload_limit_bytes": "Maximum size of a job's payload",
    "result_limit_bytes": "Larger results of jobs are stored in job_blob instead of the job's row",
    "result_max_bytes": "Maximum size of the result of a step or a job; a larger one fails the job",
    "checkpoint_warn_bytes": "Larger checkpoints log a warning",
    "checkpoint_limit_bytes": "Maximum size of a checkpoint; a larger one fails the job",
    "internal_api_url": "URL of the execution service for schedules; default: this process",
    "internal_api_token": "Secret of the execution service: sent by callers, accepted by the service",
    "internal_api_previous_token": "Previous secret, still accepted during rotation",
    "internal_api_requests_per_second": "Rate limit of the execution service for each caller",
    "internal_jwt_secret": "Key with which callers of the execution service sign tokens (HS256), instead of sending the secret",
    "internal_jwt_previous_secret": "Previous signing key, still accepted during rotation",
    "internal_jwt_audience": "Required audience (aud) of these tokens",
    "data_dir": "Folder for logs and artifacts of runs",
    "http_host": "Address on which cortex serve listens",
    "http_port": "Port on which cortex serve listens",
    "allowed_hosts": "Accepted Host headers, separated by commas; * accepts any",
    "secure_cookies": "Send cookies over HTTPS only",
    "http_body_limit_bytes": "Maximum size of a request body",
    "http_header_timeout_seconds": "Timeout for receiving the headers of a request",
    "http_body_timeout_seconds": "Timeout for receiving the body of a request",
    "http_streams": "Maximum number of open event streams in one process",
    "http_streams_per_caller": "Maximum number of open event streams of one person or key",
    "trusted_proxies": "Proxies whose X-Forwarded-For is trusted: addresses or networks, separated by commas, such as 10.0.0.0/8",
    "seal_export": "Target to which workers send the seals of the audit log: file:PATH, https://… (POST) or s3+https://…/ (PUT)",
    "seal_export_authorization": "Authorization header for seal_export; if empty, s3+https:// is signed with AWS_ACCESS_KEY_ID",
    "stream_seconds": "Maximum duration of an event stream; clients reconnect and continue where it ended",
    "approval_max_ttl_seconds": "Maximum lifetime of an approval request; longer ones are rejected",
    "metrics_token": "Bearer token for reading /metrics from other machines",
    "log_level": "debug, info, warning or error",
    "log_json": "Write the log as one JSON object per line",
    "public_url": "Public URL of this plane, used for links in messages; default: localhost with http_port",
    "telegram_bot_token": "Token of the Telegram bot that asks approvers, from @BotFather",
    "telegram_webhook_secret": "Secret that Telegram sends with each click; required for buttons in messages",
    "telegram_url": "URL of the Telegram Bot API",
    "discord_bot_token": "Token of the Discord bot that asks approvers",
    "discord_public_key": "Key that verifies clicks from Discord; required for buttons in messages",
    "discord_url": "URL of the Discord API",
    "slack_bot_token": "Token of the Slack app that asks approvers: xoxb-…",
    "slack_signing_secret": "Secret that verifies clicks from Slack; required for buttons in messages",
    "slack_url": "URL of the Slack API",
    "smtp_url": "Mail server: smtp://user:password@host:587?from=plane@example.com",
}

# Environment variables that begin with CORTEX_ but are not settings.
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
    """Reads and validates the settings: arguments override the environment, which overrides the file.

    Args:
        arguments: Settings by name; None means not given.
        environment: The variables; by default those of the process.
        file: The TOML file; by default cortex.toml in the current folder. It may be missing.

    Raises:
        InvalidInput: Lists every setting that is unknown or invalid.
    """
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
    """The address of the dashboard on this machine."""
    return f"http://localhost:{port}"


def on_port(settings: Settings, port: int, **others: Any) -> Settings:
    """The settings with another port. `public_url` follows, unless it was set to another host."""
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
    """Validates tokens and URLs of chat services. Messages do not repeat secrets."""
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
    """Validates the settings of the execution service. Messages end up in logs, so they do not repeat secrets."""
    if values.get("internal_api_url") and not (values.get("internal_api_token") or values.get("internal_jwt_secret")):
        problems.append(
            "internal_api_url also requires internal_api_token, or internal_jwt_secret: the service rejects calls without one."
        )
    for name, shortest in _SERVICE_SECRETS.items():
        value = values.get(name)
        if value and (len(value) < shortest or not re.fullmatch("[!-~]+", value)):
            problems.append(f"{name} must be at least {shortest} ASCII characters without spaces.")
    if values.get("internal_jwt_audience") == "":
        problems.append("internal_jwt_audience must not be empty, or tokens for any audience would be accepted.")


_SERVICE_SECRETS = {
    "internal_api_token": SHORTEST_SERVICE_SECRET,
    "internal_api_previous_token": SHORTEST_SERVICE_SECRET,
    "internal_jwt_secret": SHORTEST_JWT_SECRET,
    "internal_jwt_previous_secret": SHORTEST_JWT_SECRET,
}
