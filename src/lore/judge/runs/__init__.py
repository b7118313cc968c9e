"""Rules over whole chains of a recording, which no two turns show."""
