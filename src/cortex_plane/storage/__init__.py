"""Databases, named statements, transactions."""
