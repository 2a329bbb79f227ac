"""The schema of a database and its version: `schema.sql` is version 1, later versions are numbered migrations.

    sqlite/schema.sql                    all tables and triggers, applied to an empty database
    sqlite/migrations/0002_name.sql      what a later version changes; none before the first release

A released file never changes: its checksum is stored in the databases that it made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from cortex_plane.errors import DatabaseConfigError

FILE = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    current: int
    latest: int
    pending: tuple[str, ...]


def migrations_in(folder: Path) -> list[Migration]:
    """The schema file of a store, and the migrations beside it, in the order in which they are applied."""
    schema = Migration(1, "schema", (folder / "schema.sql").read_text())
    found = [(FILE.fullmatch(path.name), path) for path in sorted((folder / "migrations").glob("*.sql"))]
    return [schema, *(Migration(int(match[1]), match[2], path.read_text()) for match, path in found if match)]


def pending(known: list[Migration], applied: dict[int, str]) -> list[Migration]:
    """What is still to be applied; refuses a database that these migrations cannot have made."""
    latest = known[-1].version
    if applied and max(applied) > latest:
        raise DatabaseConfigError(
            f"The database has schema version {max(applied)}, this program knows only up to {latest}. "
            "It was upgraded by a newer cortex-plane: install that version."
        )
    for migration in known:
        recorded = applied.get(migration.version)
        if recorded is not None and recorded != migration.checksum:
            raise DatabaseConfigError(
                f"Migration {migration.version} ({migration.name}) is not the one that this database was made with. "
                "Use the cortex-plane release that made it, or restore a backup."
            )
    return [migration for migration in known if migration.version not in applied]


def status_of(known: list[Migration], applied: dict[int, str]) -> SchemaStatus:
    todo = pending(known, applied)
    return SchemaStatus(max(applied, default=0), known[-1].version, tuple(f"{m.version:04} {m.name}" for m in todo))


# -- schema ------------------------------------------------------------------------------------
# The tables themselves: which version of them there is, and how they become the newest.


class Schema(Protocol):
    async def status(self) -> SchemaStatus: ...

    async def upgrade(self) -> list[str]:
        """Applies what is missing; returns the names. Any number of processes may do so at once."""
