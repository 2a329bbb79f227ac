"""Integrations with other libraries, each in its own folder that is imported only when it is used."""
