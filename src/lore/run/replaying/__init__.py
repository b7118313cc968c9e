"""A recording sent to a server."""
