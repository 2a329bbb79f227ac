"""Measures the source tree: its size, how far a change spreads, and how many files one job crosses. `make house` prints it."""
