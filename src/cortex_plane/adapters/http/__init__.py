"""The HTTP API: a thin layer over the plane, with nobody let in who does not belong."""
