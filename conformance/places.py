"""Stores that can be copied as they are, at the moment of a kill: files of SQLite, databases of PostgreSQL."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import time
from pathlib import Path
from typing import Protocol

import psycopg

PATIENCE_SECONDS = 10.0
WRITE_LOCKS = (("-shm", 120), ("", 0x40000001))
"""The byte that the writer of an SQLite file has locked: WAL_WRITE_LOCK, and RESERVED_BYTE without a write-ahead log."""
FLOCK = "hhqqi4x"
"""`struct flock` on Linux, 64 bits."""


class Places(Protocol):
    def new(self, name: str) -> str:
        """The address of a store that does not exist yet."""

    def copy(self, original: str, name: str) -> str: ...

    def lock_holder(self, store: str) -> int | None:
        """The process without which nobody can write: one that was frozen in a transaction keeps the lock of an SQLite file."""


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self, name: str) -> str:
        return f"sqlite:///{self._folder}/{name}.db"

    def copy(self, original: str, name: str) -> str:
        copied = self.new(name)
        for part in ("", "-wal", "-journal"):  # What a crash leaves; the rest is made anew.
            source = Path(original.removeprefix("sqlite:///") + part)
            if source.exists():
                shutil.copyfile(source, copied.removeprefix("sqlite:///") + part)
        return copied

    def lock_holder(self, store: str) -> int | None:
        """As the operating system says: SQLite locks bytes of its files."""
        file = store.removeprefix("sqlite:///")
        holders = (_holder(Path(file + suffix), byte) for suffix, byte in WRITE_LOCKS)
        return next((holder for holder in holders if holder is not None), None)


def _holder(file: Path, byte: int) -> int | None:
    if not file.exists():
        return None
    wanted = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    with file.open("r+b") as opened:
        kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(opened, fcntl.F_GETLK, wanted))
    return None if kind == fcntl.F_UNLCK else int(pid)


class Databases:
    def __init__(self, server: str) -> None:
        self._server = server

    def new(self, name: str) -> str:
        self._execute(f'create database "{name}"')
        return self._url(name)

    def copy(self, original: str, name: str) -> str:
        source = original.rpartition("/")[2]
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self._execute(f'create database "{name}" template "{source}"')
                return self._url(name)
            except psycopg.errors.ObjectInUse:  # The server needs a moment to notice that a client was killed.
                if time.monotonic() > until:
                    raise
                self._execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{source}'")
                time.sleep(0.01)

    def lock_holder(self, store: str) -> int | None:
        return None  # A server locks rows, not the whole store.

    def _execute(self, sql: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(sql)

    def _url(self, name: str) -> str:
        return f"{self._server.rpartition('/')[0]}/{name}"
