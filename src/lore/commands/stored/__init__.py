"""Commands that keep and change sessions."""
