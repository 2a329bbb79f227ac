"""Approvals: requests, decisions, messages, deadlines, channels."""
