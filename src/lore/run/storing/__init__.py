"""What `lore store` does, and what other commands do with stored sessions: one file a matter."""
