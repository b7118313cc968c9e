"""What is remembered across sessions: extracted from messages, consolidated into topics, kept in the session store."""
