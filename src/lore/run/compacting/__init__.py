"""`lore compact`: what continuous compaction would have done to a recording, and doing it to a session."""
