"""Time zones by name, and the version of what is known about them."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import pytest

from cortex_plane.errors import InvalidInput
from cortex_plane.schedules.cron import time_zone, zone_data_version


def test_every_zone_of_the_database_is_found() -> None:
    for name in sorted(available_timezones() - {"localtime", "Factory"}):
        assert time_zone(name).key == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Europe/Berln", "There is no time zone 'Europe/Berln'. Did you mean \"Europe/Berlin\"?"),
        ("europe/berlin", 'Did you mean "Europe/Berlin"?'),
        ("Berlin", 'Did you mean "Europe/Berlin"?'),
        ("America/New York", 'Did you mean "America/New_York"?'),
        ("utc ", 'Did you mean "UTC"?'),
        ("CEST", 'Write a place such as "Europe/Berlin", or "UTC".'),
        ("+02:00", 'Write a place such as "Europe/Berlin", or "UTC".'),
        ("Europe", "There is no time zone"),
        ("localtime", "There is no time zone"),
        ("posixrules", "There is no time zone"),
        ("right/Europe/Berlin", "There is no time zone"),
        ("../../etc/passwd", "There is no time zone"),
        ("/etc/localtime", "There is no time zone"),
        ("tzdata.zi", "There is no time zone"),
        ("a\0b", "There is no time zone"),
        ("\ud800", "There is no time zone"),
        ("x" * 5_000, "There is no time zone"),
        ("", "must be a name"),
        (None, "must be a name"),
        (1, "must be a name"),
    ],
)
def test_an_unknown_zone_is_refused_by_name(name: Any, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        time_zone(name)

    assert says in str(refused.value)
    assert len(str(refused.value)) < 200
    assert refused.value.field == "timezone"


def test_the_version_of_the_data_can_be_read() -> None:
    assert zone_data_version() not in ("", "none")


def test_the_version_is_that_of_the_first_folder_with_zones(tmp_path: Path) -> None:
    empty, released = tmp_path / "empty", tmp_path / "released"
    empty.mkdir()
    released.mkdir()
    (released / "tzdata.zi").write_text("# version 2031c\n# more\n")

    assert zone_data_version((str(tmp_path / "none"), str(empty), str(released))) == "2031c"


def test_data_without_a_version_has_a_fingerprint_that_follows_its_contents(tmp_path: Path) -> None:
    versions = set()
    for n, contents in enumerate(["one", "one", "other"]):
        folder = tmp_path / str(n)
        folder.mkdir()
        (folder / "UTC").write_text(contents)
        (folder / "localtime").write_text(str(n))
        versions.add(zone_data_version((str(folder),)))

    assert len(versions) == 2
    assert all(version.startswith("sha256:") for version in versions)


def test_without_folders_of_the_system_the_package_counts(tmp_path: Path) -> None:
    assert zone_data_version((str(tmp_path),)) == f"tzdata {metadata.version('tzdata')}"


def test_a_system_without_time_zones_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_plane.schedules.cron.zones.available_timezones", set)

    with pytest.raises(InvalidInput, match=r"this system has none at all\. To install them: pip install tzdata"):
        time_zone("Europe/Atlantis")
