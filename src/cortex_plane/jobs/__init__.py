"""Jobs: the state machine, submission, claims, runs, search, events."""
