"""Results without content: `--redact`."""
