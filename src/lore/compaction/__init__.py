"""When to compact, with what summary, which outside context, what to remember (`base` has the words)."""
