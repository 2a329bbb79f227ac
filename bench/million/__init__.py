"""Tables as they look after a million jobs."""
