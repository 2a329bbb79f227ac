"""Agents: definitions in the database, and the code that this program has for them."""
