"""One module for each system that is measured; each runs in a process of its own, in its own environment."""
