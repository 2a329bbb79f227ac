"""The log on stderr: readable in a terminal, or one JSON object per line with CORTEX_LOG_JSON."""

from __future__ import annotations

import logging
import sys
from io import StringIO
from typing import Any, TextIO

from cortex_plane.cli.front_page import colours_wanted
from cortex_plane.redaction import redacted, redacted_text, visible
from cortex_plane.settings import Settings
from cortex_plane.worker.reporter import add_run

OF_LOGGING = ("exc_info", "_record", "_from_structlog")
"""Keys of an event that processors use internally; they are not printed."""


def configure_logs(settings: Settings, *, quiet: bool = False) -> None:
    """Configures structlog. `quiet`: only errors are logged, unless the level is debug."""
    import structlog

    level = "error" if quiet and settings.log_level != "debug" else settings.log_level
    structlog.configure(
        processors=[*_common(settings), _renderer(settings)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def adopt_standard_logging(settings: Settings) -> None:
    """Formats records of the standard `logging` in the same way, unless the app has configured handlers itself."""
    import structlog

    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_common(settings),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer(settings)],
        )
    )
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())


def _common(settings: Settings) -> list[Any]:
    import structlog

    only_time = sys.stderr.isatty() and not settings.log_json
    return [
        structlog.contextvars.merge_contextvars,
        add_run,
        _add_trace,
        _hide_fields(settings.secrets()),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False) if only_time else structlog.processors.TimeStamper(fmt="iso"),
    ]


def _add_trace(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Adds the ids of the current trace and span, if the program uses OpenTelemetry."""
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is not None and (span := tracing.get_current_span().get_span_context()).is_valid:
        event.setdefault("trace_id", f"{span.trace_id:032x}")
        event.setdefault("span_id", f"{span.span_id:016x}")
    return event


def _hide_fields(secrets: tuple[str, ...]) -> Any:
    def hide(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
        kept = {name: event[name] for name in OF_LOGGING if name in event}
        return {**redacted({name: value for name, value in event.items() if name not in kept}, secrets), **kept}

    return hide


def _renderer(settings: Settings) -> Any:
    """Redacts secrets in the finished line, including the text of exceptions."""
    render, secrets = _plain_renderer(settings), settings.secrets()
    return lambda logger, method, event: redacted_text(render(logger, method, event), secrets)


def _plain_renderer(settings: Settings) -> Any:
    """Tracebacks are plain: rich tracebacks show the values of variables, which may be secrets."""
    import structlog

    if settings.log_json:
        return _json
    console = structlog.dev.ConsoleRenderer(
        colors=colours_wanted(sys.stderr), exception_formatter=_plain_traceback, sort_keys=False
    )
    return lambda logger, method, event: console(logger, method, _on_one_line(event))


def _plain_traceback(stream: TextIO, exc_info: Any) -> None:
    import structlog

    written = StringIO()
    structlog.dev.plain_traceback(written, exc_info)
    stream.write(visible(written.getvalue(), lines=True))


def _on_one_line(event: dict[str, Any]) -> dict[str, Any]:
    """Escapes control characters and newlines, so that a value cannot control the terminal or imitate another log line."""
    return {
        visible(str(name)): visible(value) if isinstance(value, str) and name not in OF_LOGGING else value
        for name, value in event.items()
    }


def _json(logger: Any, method: str, event: dict[str, Any]) -> str:
    import orjson
    import structlog

    ready = structlog.processors.format_exc_info(logger, method, event)
    return orjson.dumps(ready, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
