"""What of the log is shown by commands that answer by themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from cortex_plane import Settings
from cortex_plane.adapters.cli.logs import configure_logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("level", "heard"), [("info", ["error"]), ("warning", ["error"]), ("debug", ["info", "warning", "error"])]
)
def test_a_quiet_command_logs_errors_only_unless_it_is_debugged(
    capsys: pytest.CaptureFixture[str], level: str, heard: list[str]
) -> None:
    configure_logs(Settings(log_level=level), quiet=True)

    log = structlog.get_logger()
    log.info("info")
    log.warning("warning")
    log.error("error")

    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[-1] for line in lines] == heard


def test_exceptions_are_told_without_the_values_of_variables(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(Settings())

    try:
        _log_in("".join(["ge", "heim"]))
    except ValueError:
        structlog.get_logger().exception("failed")

    err = capsys.readouterr().err
    assert "ValueError: wrong" in err
    assert "geheim" not in err


def test_json_holds_exceptions_and_whatever_has_no_json_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    import orjson

    configure_logs(Settings(log_json=True))

    try:
        _log_in("geheim")
    except ValueError:
        structlog.get_logger().exception("failed", what={1, 2}, key={3: 4})

    line = orjson.loads(capsys.readouterr().err)
    assert line["event"] == "failed"
    assert line["what"] == "{1, 2}"
    assert line["exception"].endswith("ValueError: wrong")


def _log_in(password: str) -> None:
    raise ValueError("wrong")
