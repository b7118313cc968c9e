"""When to compact, with what summary, which outside context, what to remember (`base` has the words).

One path: a driver asks whether a trigger is due, has it carried out, and applies the events to its session.

- `activity` follows a session's events: exchanges, pauses, requests.
- `policy` decides which trigger is due, and names the entries to remove. Pure, as are `entries`, `transcripts`.
- `summaries` gets a summary from any summariser: `extractive` (by rule), `commands` (which also asks the sources of
  outside context), `summarizers` (a model).
- `executor`: its `Compactor` connects these for one session, and creates the events.
- Drivers: `automatic` (a session of the library), `hooks` (a harness with a store), `store_watch`, the command
  `lore compact`, and `trial`, which applies the events to a copy of a recording; `turns` and `costs` say what it saves.
"""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.compaction.base import SessionMemory as SessionMemory, StoreMemory as StoreMemory, is_idle as is_idle
    from lore.compaction.commands import NESTED as NESTED, is_nested as is_nested
    from lore.compaction.entries import BYTES_PER_TOKEN as BYTES_PER_TOKEN, Entries as Entries
    from lore.compaction.entries import has_real_activity as has_real_activity, is_injected as is_injected
    from lore.compaction.hooks import run_in_thread as run_in_thread
    from lore.compaction.settings import Compaction as Compaction
    from lore.compaction.summarizers import summarizer_of as summarizer_of

__getattr__ = public_names(__name__)
