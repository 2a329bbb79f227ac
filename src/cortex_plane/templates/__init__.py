"""Job templates: job definitions that are saved once and submitted many times."""
