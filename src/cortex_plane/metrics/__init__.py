"""Metrics and statistics."""
