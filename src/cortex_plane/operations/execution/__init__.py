"""The execution service: runs agents, templates and graphs under a grant, once for each key. It owns runs and charges, and
never writes the slots of schedules."""
