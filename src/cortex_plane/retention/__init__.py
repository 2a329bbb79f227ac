"""Retention: how long jobs and records are kept."""
