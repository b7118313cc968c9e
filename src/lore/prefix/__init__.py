"""How much of a prompt the next one reuses, at which place the two differ, and why."""
