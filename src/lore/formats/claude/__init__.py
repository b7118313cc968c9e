"""Claude Code's session logs."""
