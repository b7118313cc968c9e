"""Commands over stores: sessions, knowledge, compaction, memory."""
