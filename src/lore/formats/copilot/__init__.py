"""Copilot CLI's session logs."""
