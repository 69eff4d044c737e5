"""One module per domain; each holds a ``DOMAIN``."""
