"""How each column of a copied job follows from its original: an earlier instant, an id of that instant, a place of its own."""

from __future__ import annotations

from bench.million.load import POSITION_SPACING, SPACING, Load

IDS = {"id", "job_id", "run_id", "group_id", "request_id", "retry_of", "approval_request_id", "object_id"}
PLACES = {"position": POSITION_SPACING, "worker_job_id": SPACING, "seq": SPACING}
UNIQUE_TEXTS = {"token_hash", "idempotency_key"}


def earlier(table: str, column: str) -> str:
    if column in IDS and (table, column) != ("queue_entry", "id"):
        return f"aged({column}, :copy)"
    if column in UNIQUE_TEXTS:
        return f"numbered({column}, :copy)"
    if column == "at" or column.endswith("_at"):
        return f"{column} - seconds(:copy)"
    return in_a_place_of_its_own(table, column)


def in_a_place_of_its_own(table: str, column: str) -> str:
    spacing = SPACING if (table, column) == ("queue_entry", "id") else PLACES.get(column)
    return column if spacing is None else f"{column} + :copy * {spacing}"


def insert(load: Load, table: str, target: str, columns: list[str], overriding: str = "") -> str:
    values = ", ".join(load.value(table, column) for column in columns)
    return f"insert into {target} ({', '.join(columns)}) {overriding} select {values} from original_{table}"
