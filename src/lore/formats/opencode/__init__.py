"""Sessions of OpenCode and Kilo CLI."""
