"""Sessions of Kimi CLI and of Kimi Code."""
