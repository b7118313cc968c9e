"""Run: wire the rooms. Read, fold, assemble, compare, check, and hand the result to a report."""
