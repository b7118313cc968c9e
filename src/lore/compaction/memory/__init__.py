"""What is remembered across sessions: extracted from messages, consolidated into topics, kept in the session store.

In: entries of a timeline. Out: records in buckets of the store, and `knowledge` events for a session. `identities`
says whose memory it is, `records` what it consists of, `buckets` how a store keeps it, `audit` who changed it;
`listening` says when a session is learnt from, and up to where it was; `transcript` reads entries, `heuristics` and
`asking` make a structure of them, `consolidation` makes topics of that; `remembering` puts these together and tells
sessions of topics, `worker` in the background of a session, `idle` for those of a store; `views` shows and deletes.
"""
