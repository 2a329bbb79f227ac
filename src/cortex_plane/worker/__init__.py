"""The worker and its background loops."""
