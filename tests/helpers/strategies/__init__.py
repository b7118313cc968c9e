"""Generated sessions, in the spellings that real writers use.

`write` is an encoder of its own: it spells one value in many ways (key order, white space, escapes, floats),
lone surrogates and integers past 2^64 included. Strategies draw short lists of operations from small pools, so
that ids meet each other and what fails shrinks to a log that a person can read:

- `lore_logs`      lore's own log as bytes, as lines, and as the events in it
- `any_events`     events in any order, whether they make sense or not
- `claude_logs`    Claude Code logs as bytes
- `bodies`, `conversations`, `body_files`    request bodies of every dialect, alone, growing, in files
"""

from helpers.strategies.bodies import (
    CACHE_CONTROL,
    WITH_BREAKPOINTS,
    bodies,
    body_files,
    conversations,
    places_for_breakpoints,
    said_in,
    with_breakpoints,
)
from helpers.strategies.claude import claude_logs
from helpers.strategies.events import any_events
from helpers.strategies.logs import events_of, lore_logs, read_all
from helpers.strategies.spelling import AWKWARD, NUMBERS, PLAIN, Style, styles, texts, values, write

__all__ = [
    "AWKWARD",
    "CACHE_CONTROL",
    "NUMBERS",
    "PLAIN",
    "WITH_BREAKPOINTS",
    "Style",
    "any_events",
    "bodies",
    "body_files",
    "claude_logs",
    "conversations",
    "events_of",
    "lore_logs",
    "with_breakpoints",
    "places_for_breakpoints",
    "read_all",
    "said_in",
    "styles",
    "texts",
    "values",
    "write",
]
