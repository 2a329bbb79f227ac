"""The audit log, its seals and their export."""
