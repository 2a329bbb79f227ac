"""Queues: order, pauses, limits, fair share, reservations, and why a job waits."""
