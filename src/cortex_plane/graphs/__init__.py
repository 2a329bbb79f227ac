"""Graphs: their checkpoints, and how they run as agents."""
