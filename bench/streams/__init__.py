"""What open event streams cost the worker."""
