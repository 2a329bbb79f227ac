"""Grants, the execution service, and billing."""
