"""Extras: optional packages, which `pip install cortex-plane` does not install."""

from __future__ import annotations

from importlib.util import find_spec

from cortex_plane.errors import Unavailable

MODULES = {
    "server": (
        "argon2",
        "cryptography",
        "fastapi",
        "fastapi_swagger",
        "jinja2",
        "jwt",
        "markupsafe",
        "prometheus_client",
        "python_multipart",
        "starlette",
        "uvicorn",
    ),
    "email": ("aiosmtplib",),
    "otel": ("opentelemetry.trace", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "langgraph": ("langgraph", "langgraph.checkpoint"),
    "uvloop": ("uvloop",),
}
"""The modules that our code imports from each extra. pyproject.toml lists the packages."""


class MissingExtra(Unavailable, ImportError):
    """The extra that a feature needs is not installed. Also an ImportError."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs packages that are not installed. To install them: {advice(extra)}")
        self.extra = extra


def require_extra(extra: str, what: str) -> None:
    """Raises MissingExtra unless every module of the extra can be found. Imports none of them.

    `what` begins the message: "`cortex serve`" or "Sending e-mail by SMTP".
    """
    if not all(map(is_installed, MODULES[extra])):
        raise MissingExtra(what, extra)


def advice(extra: str) -> str:
    return f"pip install 'cortex-plane[{extra}]'"


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # Its parent is missing.
        return False
    except ValueError:  # sys.modules has an entry without a spec, such as a substitute of a test.
        return True
