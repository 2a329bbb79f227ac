"""Time zones by name, and what their clocks do: when they change, and which instant is which time of day."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cortex_plane.errors import InvalidInput, did_you_mean

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)

# Files that lie beside the zones: what the machine happens to be set to, and copies that count leap seconds.
_NO_ZONES = ("localtime", "posixrules", "Factory", "posix/", "right/")


def time_zone(name: str) -> ZoneInfo:
    if not isinstance(name, str) or not name:
        raise InvalidInput(f'timezone must be a name such as "Europe/Berlin" or "UTC", not {name!r:.60}.', field="timezone")
    zone = None if name.startswith(_NO_ZONES) else _load(name)
    if zone is None:
        raise InvalidInput(_unknown(name), field="timezone")
    return zone


@cache
def zone_data_version(folders: tuple[str, ...] = TZPATH) -> str:
    """The release of the time-zone data, such as 2025b, or its fingerprint. When it changes, slots may have moved.

    Where zoneinfo looks first counts: the folders of the system, then the package tzdata. A process keeps the zones that it has
    loaded, so it keeps this too.
    """
    for folder in map(Path, folders):
        if (release := folder / "tzdata.zi").is_file():
            with release.open(encoding="utf-8") as lines:
                return lines.readline().removeprefix("# version").strip()
        if (folder / "UTC").is_file():
            return _fingerprint(folder)
    try:
        return f"tzdata {metadata.version('tzdata')}"
    except metadata.PackageNotFoundError:
        return "none"


def wall_clock(zone: ZoneInfo, at: datetime) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None)


def offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def change(zone: ZoneInfo, earlier: datetime, later: datetime) -> datetime:
    """The instant between the two at which the clocks change. Their offsets must differ."""
    low, high = earlier.replace(microsecond=0), later.replace(microsecond=0)
    after = offset(zone, high)
    while high - low > SECOND:
        middle = low + (high - low) // SECOND // 2 * SECOND
        low, high = (low, middle) if offset(zone, middle) == after else (middle, high)
    return high


def first_reached(zone: ZoneInfo, moment: datetime) -> datetime | None:
    """The instant at which the clocks first show this time, or skip it; None if they skip its whole date."""
    at = moment.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall_clock(zone, at) == moment:
        return at
    # In a gap, fold 0 is reckoned as before the change and so comes after it; fold 1 the other way round.
    skipping = change(zone, moment.replace(tzinfo=zone, fold=1).astimezone(UTC), at)
    midnight = datetime.combine(moment, time())
    begin, end = skipping.replace(tzinfo=None) + offset(zone, skipping - SECOND), wall_clock(zone, skipping)
    return None if begin <= midnight and end >= midnight + DAY else skipping


def _fingerprint(folder: Path) -> str:
    digest = sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not str(path.relative_to(folder)).startswith(_NO_ZONES):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + sha256(path.read_bytes()).digest())
    return f"sha256:{digest.hexdigest()[:16]}"


def _load(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):  # Not there, a folder, or no name at all.
        return None


def _unknown(name: str) -> str:
    known = {zone.casefold(): zone for zone in sorted(available_timezones()) if not zone.startswith(_NO_ZONES)}
    if not known:
        return f"There is no time zone {name!r:.60}: this system has none at all. To install them: pip install tzdata"
    wanted = name.strip().replace(" ", "_").casefold()
    exact = known.get(wanted) or next((zone for key, zone in known.items() if key.endswith(f"/{wanted}")), None)
    # What resembles an abbreviation such as CEST or PST is most often another part of the world.
    close = "" if name.isupper() and len(name) <= 5 else did_you_mean(name[:60], known.values())
    hint = f' Did you mean "{exact}"?' if exact else close or ' Write a place such as "Europe/Berlin", or "UTC".'
    return f"There is no time zone {name!r:.60}.{hint}"
