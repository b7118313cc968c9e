"""Words of the session that runs: what broke its cache last, and what to do now.

In: causes, what a session came to, the time. Out: sentences in which nothing is obeyed by a terminal.
"""

from __future__ import annotations

from msgspec.structs import replace

from lore.model.results_overview import SpendingCause
from lore.report.plain import visible
from lore.report.spending_sentences import cause_in_words

# Of one break, what is plural in sums.
_SINGLE = {
    "pauses longer than": "a pause longer than", "pauses longer than the cache lives": "a pause longer than it lives",
    "compactions": "a compaction", "compactions in a cold cache": "a compaction in a cold cache",
}  # fmt: skip


def worded(cause: SpendingCause) -> SpendingCause:
    """Return the cause of a single break with its words."""
    made = cause_in_words(cause)
    says = _SINGLE.get(made.says, made.says)
    for many, single in _SINGLE.items():
        if says.startswith(f"{many} "):
            says = single + says[len(many) :]
            break
    return replace(made, says=visible(says), fix=visible(made.fix))
