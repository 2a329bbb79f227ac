"""Faults that real workers must survive, each with figures: `make chaos` runs them all, `make test` a short version."""
