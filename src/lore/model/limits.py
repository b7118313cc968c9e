"""Limits of size and work, each with its reason: what a file that somebody else wrote can cost at most.

How much a page or a report shows, facts about providers (four breakpoints a request) and the sizes of memos are
constants of their modules.
"""

from __future__ import annotations

# Folding and assembling: each of these is looked at again in later turns.
SESSION_DELTAS = 256  # prompt deltas between two resets; lore itself makes 8
SESSION_LAYERS = 1_000  # layers: one that changes is looked for among all
SESSION_CLIENTS = 16  # names of programs: a log may name another in every turn
RESPONSE_ENTRIES = 64  # entries after a response that may belong to it: a few, of a hostile file a million
TOOL_LOOP_ITEMS = 2_000  # items of a tool loop that are counted in each of its turns

# Comparing two requests
ENVELOPE_BYTES = 4_096  # bytes of a message without its blocks: they are read once for each block
CHAINS_COMPARED = 64  # chains with the same beginning: a thousand forks would cost a million comparisons
CHAIN_PROMPT_BYTES = 48 * 1024 * 1024  # bytes of the latest prompts of chains: a hundred of half a megabyte
CHAIN_REPLY_BYTES = 8 * 1024 * 1024  # bytes of replies that were not compared yet
USER_SEGMENTS = 16_384  # segments after the model's last message: each turn searches them for rewrites
DIFFERING_LINES = 64  # places in which two texts differ; each is compared by itself
DIFFERING_TEXT_BYTES = 4 * 1024 * 1024  # bytes of two texts that are compared line by line
DIFFERENCE_CHARACTERS = 24_576  # characters searched for words and headings in all differences of two requests
VARYING_TEXT = 65_536  # characters searched for clocks and ids: a longer difference is none
FORECAST_ENTRIES = 4_000  # entries measured for a turn; more only if a long history changed at its beginning
