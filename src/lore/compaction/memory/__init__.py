"""What is remembered across sessions: extracted from messages, consolidated into topics, kept in the session store.

In: entries of a timeline. Out: records in buckets of the store, and `knowledge` events for a session. `identities`
says whose memory it is, `records` what it consists of, `buckets` how a store keeps it and who changed it;
`conversation` what of a timeline is learnt from, `extraction` makes a structure of it, `consolidation` topics of that;
`agent_memory` puts these together and tells sessions of topics; `views` is what `lore memory` shows and does.
"""
