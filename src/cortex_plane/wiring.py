"""Chooses implementations by the settings: database, channels, executors, telemetry."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from cortex_plane.approvals.channels.base import Channel, Clicks
from cortex_plane.clock import Clock, SystemClock
from cortex_plane.errors import DatabaseConfigError, InvalidInput
from cortex_plane.extras import advice, is_installed, require_extra
from cortex_plane.grants.execution import LocalExecution
from cortex_plane.graphs.store import GraphExecutor
from cortex_plane.ids import NewId, new_id
from cortex_plane.schedules.model import SERVICE_NAME
from cortex_plane.settings import DISCORD_URL, SLACK_URL, TELEGRAM_URL, Settings
from cortex_plane.storage.database import Database, DatabaseSession
from cortex_plane.webhooks.model import EndpointId, Target

if TYPE_CHECKING:
    from cortex_plane.agents.directory import Directory
    from cortex_plane.approvals.channels import SlackChannel
    from cortex_plane.audit.service import SendSeal
    from cortex_plane.grants.execution_service import ExecutionService
    from cortex_plane.http_client import Http
    from cortex_plane.people.passwords import Passwords
    from cortex_plane.stores import Store
    from cortex_plane.telemetry import Telemetry


FindTarget = Callable[[EndpointId], Awaitable[Target | None]]

POSTGRES = ("postgresql", "postgres")
IN_THIS_PROCESS = "http://localhost"


def open_store(database_url: str, clock: Clock | None = None, ids: NewId = new_id) -> Store:
    """The store for a database URL. It connects on first use. Raises DatabaseConfigError if the URL is invalid."""
    from cortex_plane.stores import Store

    return Store(Database(_new_session(database_url, clock or SystemClock())), ids)


def _new_session(database_url: str, clock: Clock) -> Callable[[], DatabaseSession]:
    scheme = database_url.partition("://")[0]
    if scheme in POSTGRES:
        _check_postgres(database_url)
        from cortex_plane.storage.postgres.database import PostgresDatabase

        return partial(PostgresDatabase, database_url)
    if scheme == "sqlite":
        from cortex_plane.storage.sqlite.database import SqliteDatabase

        return partial(SqliteDatabase, _sqlite_path(database_url), clock)
    raise DatabaseConfigError(
        f"A database address begins with sqlite:// or postgresql://, not {scheme!r:.20}. "
        "Use sqlite:///file.db or postgresql://user:password@host/database."
    )


def http_client() -> Http:
    """The HTTP client, imported on first use."""
    from cortex_plane.http_client import HttpxClient

    return HttpxClient()


@cache
def seal_target(target: str, authorization: str = "") -> SendSeal:
    from cortex_plane.audit import export as seal_targets

    return seal_targets.seal_target(target, authorization)


def passwords() -> Passwords:
    require_extra("server", "A password")
    from cortex_plane.people.passwords import Argon2Passwords

    return Argon2Passwords()


def telemetry() -> Telemetry | None:
    """The telemetry, or None if the program has not imported OpenTelemetry and no OTEL_… variable is set. OpenTelemetry is not
    imported then."""
    if "opentelemetry.trace" not in sys.modules and not any(name.startswith("OTEL_") for name in os.environ):
        return None
    if not is_installed("opentelemetry.trace"):
        import structlog

        structlog.get_logger().warning("traces_not_exported", error="OpenTelemetry is not installed.", advice=advice("otel"))
        return None
    from cortex_plane.otel import open_telemetry

    return open_telemetry()


def graph_executor(graph: Any) -> GraphExecutor:
    """The executor for a graph, chosen by the graph's framework. The framework's integration is imported on demand."""
    if isinstance(graph, GraphExecutor):
        return graph
    bases = {f"{base.__module__}.{base.__name__}" for base in type(graph).__mro__}
    if "langgraph.graph.state.StateGraph" in bases:
        raise InvalidInput("A StateGraph must be compiled first: plane.graph(name, builder.compile()).", field="compiled")
    if not any(base.startswith("langgraph.pregel.") for base in bases):
        raise InvalidInput(
            f"plane.graph takes a compiled LangGraph graph, or an executor of graphs, not a {type(graph).__name__}. "
            "To install LangGraph: pip install 'cortex-plane[langgraph]'",
            field="compiled",
        )
    try:
        from cortex_plane.integrations.langgraph import LangGraphExecutor
    except ImportError as error:
        raise InvalidInput(
            f"LangGraph graphs need an extra: pip install 'cortex-plane[langgraph]' ({error}).", field="compiled"
        ) from error
    return LangGraphExecutor(graph)


def execution_service(
    settings: Settings, store: Store, directory: Directory, clock: Clock, ids: NewId, http: Http, app: Any = None
) -> ExecutionService:
    """The execution service for schedules: an ASGI application in this process, the service at `internal_api_url`, or direct
    calls."""
    if app is not None:
        from cortex_plane.grants.execution_client import AsgiClient

        return _execution_over_http(settings, clock, AsgiClient(app), IN_THIS_PROCESS)
    if settings.internal_api_url:
        return _execution_over_http(settings, clock, http, settings.internal_api_url)
    return LocalExecution(store, directory, clock, ids, settings.payload_limit_bytes)


def channels(
    settings: Settings, http: Http, clock: Clock, find_target: FindTarget, own: Mapping[str, Channel] | None = None
) -> Mapping[str, Channel]:
    """The configured channels to approvers, each created on first use. Channels in `own` override them."""
    makers: dict[str, Callable[[], Channel]] = {"webhook": lambda: _webhook(http, clock, find_target)}
    if settings.telegram_bot_token:
        makers["telegram"] = lambda: _telegram(settings, http)
    if settings.discord_bot_token:
        makers["discord"] = lambda: _discord(settings, http)
    if settings.slack_bot_token:
        makers["slack"] = lambda: _slack(settings, http)
    if settings.smtp_url:
        makers["email"] = lambda: _email(settings, clock)
    return _Channels({} if own is None else own, makers)


def clicks(settings: Settings, http: Http, clock: Clock) -> dict[str, Clicks]:
    """The chat services whose clicks can be verified with the configured secrets."""
    from cortex_plane.approvals.channels.clicks import DiscordClicks, SlackClicks, TelegramClicks

    found: dict[str, Clicks] = {}
    if settings.telegram_webhook_secret:
        found["telegram"] = TelegramClicks(settings.telegram_webhook_secret)
    if settings.discord_public_key:
        found["discord"] = DiscordClicks(settings.discord_public_key, clock)
    if settings.slack_signing_secret and settings.slack_bot_token:
        found["slack"] = SlackClicks(_slack(settings, http), settings.slack_signing_secret, clock)
    return found


class _Channels(Mapping[str, Channel]):
    def __init__(self, own: Mapping[str, Channel], makers: Mapping[str, Callable[[], Channel]]) -> None:
        self._own, self._makers = own, makers
        self._made: dict[str, Channel] = {}

    def __getitem__(self, name: str) -> Channel:
        if name in self._own:
            return self._own[name]
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._own, **self._makers})

    def __len__(self) -> int:
        return len({**self._own, **self._makers})


# A service URL set by the operator may be a private address. Messages have buttons only if clicks can be verified.
def _telegram(settings: Settings, http: Http) -> Channel:
    from cortex_plane.approvals.channels import TelegramChannel

    return TelegramChannel(
        http,
        settings.telegram_bot_token,
        settings.telegram_url,
        interactive=bool(settings.telegram_webhook_secret),
        allow_private=settings.telegram_url != TELEGRAM_URL,
    )


def _discord(settings: Settings, http: Http) -> Channel:
    from cortex_plane.approvals.channels import DiscordChannel

    return DiscordChannel(
        http,
        settings.discord_bot_token,
        settings.discord_url,
        interactive=bool(settings.discord_public_key),
        allow_private=settings.discord_url != DISCORD_URL,
    )


def _slack(settings: Settings, http: Http) -> SlackChannel:
    from cortex_plane.approvals.channels import SlackChannel

    return SlackChannel(
        http,
        settings.slack_bot_token,
        settings.slack_url,
        interactive=bool(settings.slack_signing_secret),
        allow_private=settings.slack_url != SLACK_URL,
    )


def _email(settings: Settings, clock: Clock) -> Channel:
    from cortex_plane.approvals.channels import EmailChannel
    from cortex_plane.integrations.email import SmtpTransport
    from cortex_plane.integrations.email.model import mail_server

    server = mail_server(settings.smtp_url)
    transport = SmtpTransport(server.host, server.sender, server.port, server.username, server.password, server.tls)
    return EmailChannel(transport, clock)


def _webhook(http: Http, clock: Clock, find_target: FindTarget) -> Channel:
    from cortex_plane.approvals.channels import WebhookChannel

    return WebhookChannel(http, clock, find_target)


def _execution_over_http(settings: Settings, clock: Clock, http: Http, url: str) -> ExecutionService:
    from cortex_plane.grants.execution_client import HttpExecution, TokenSigner

    if not settings.internal_jwt_secret:
        return HttpExecution(http, url, settings.internal_api_token)
    signer = TokenSigner(settings.internal_jwt_secret, settings.internal_jwt_audience, SERVICE_NAME, clock)
    return HttpExecution(http, url, "", sign=signer.token)


def _check_postgres(database_url: str) -> None:
    """Validates the URL early, with an error that does not show the password."""
    try:
        parts = urlsplit(database_url)
        for host in parts.netloc.rpartition("@")[2].split(","):
            urlsplit(f"//{host}").port  # noqa: B018 - reading it checks it
        for ports in parse_qs(parts.query).get("port", []):
            [int(port) for port in ports.split(",")]
    except ValueError as error:
        raise DatabaseConfigError(
            f"The PostgreSQL address cannot be read: {error}. Use postgresql://user:password@host:5432/database."
        ) from None


def _sqlite_path(database_url: str) -> Path:
    """`sqlite:///jobs.db` is relative, `sqlite:////var/jobs.db` is absolute."""
    path = unquote(database_url.removeprefix("sqlite://"))
    if not path.startswith("/") or path == "/":
        raise DatabaseConfigError(
            f"{database_url!r:.80} names no file. Use sqlite:///file.db, or sqlite:////folder/file.db for an absolute path."
        )
    if path == "/:memory:":
        raise DatabaseConfigError("In-memory SQLite databases are not supported: the data would be lost on exit. Use a file.")
    return Path(path[1:])
