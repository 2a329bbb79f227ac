"""How fast Cortex Plane is, beside its peers and with a million jobs behind it."""
