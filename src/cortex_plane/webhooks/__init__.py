"""Webhooks: endpoints, events, deliveries, messages to operators."""
