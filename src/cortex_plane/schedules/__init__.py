"""Schedules: cron rules, slots and their ledger."""
