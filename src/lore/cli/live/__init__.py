"""Commands about the session that runs."""
