"""How each column of a copy follows from its original: an earlier instant, an id of that instant, a place of its own."""

from __future__ import annotations

from bench.million.load import POSITION_SPACING, SPACING

IDS = {"id", "job_id", "run_id", "group_id", "request_id", "retry_of", "approval_request_id", "object_id"}
PLACES = {"position": POSITION_SPACING, "worker_job_id": SPACING, "seq": SPACING}
UNIQUE_TEXTS = {"token_hash", "idempotency_key"}


def value(table: str, column: str, copy: str, seconds_ago: str) -> str:
    """`copy` and `seconds_ago` are how the store's SQL writes the number of the copy, and that many seconds."""
    if table == "queue_entry" and column == "id":
        return f"{column} + {copy} * {SPACING}"
    if column in IDS:
        return f"aged({column}, {copy})"
    if column in PLACES:
        return f"{column} + {copy} * {PLACES[column]}"
    if column in UNIQUE_TEXTS:
        return f"numbered({column}, {copy})"
    if column == "at" or column.endswith("_at"):
        return f"{column} - {seconds_ago}"
    return column


def insert(table: str, target: str, columns: list[str], copy: str, seconds_ago: str, overriding: str = "") -> str:
    values = ", ".join(value(table, column, copy, seconds_ago) for column in columns)
    return f"insert into {target} ({', '.join(columns)}) {overriding} select {values} from original_{table}"
