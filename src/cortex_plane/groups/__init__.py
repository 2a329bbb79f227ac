"""Groups of jobs that belong together."""
