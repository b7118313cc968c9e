"""What is said of a replay besides its figures: why a server says nothing of its cache, what was warm, what is unsent.

In: layouts as they were sent. Out: sentences, each once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lore.cache.llama_cpp import SLOTS
from lore.model.providers import LLAMA_CPP
from lore.model.results_replay import ReplayedLayout
from lore.report.plain import counted

WARM = 0.05  # of the first prompt: what a chat template puts before any prompt is less
# How an engine is told to say what it read. Sources: vLLM 0.32 and SGLang 0.5, options of their servers.
_SWITCHES = {
    "vllm": "vLLM says it when started with --enable-prompt-tokens-details",
    "sglang": "SGLang says it when started with --enable-cache-report",
}


def notes_of(layouts: Sequence[ReplayedLayout], engine: str, slots: int | None) -> list[str]:
    """Return what a reader has to know of what was sent and answered."""
    return list(dict.fromkeys(note for layout in layouts for note in _notes(layout, engine, slots)))


def _notes(layout: ReplayedLayout, engine: str, slots: int | None) -> Iterator[str]:
    for reason, count in layout.skipped.items():
        named, more = layout.unsent.get(reason, []), count - len(layout.unsent.get(reason, []))
        names = ", ".join([*named, *([f"and {more:,} more"] if more else [])])
        yield f"not sent: {counted(count, 'request')} {reason}{f' ({names})' if named else ''}"
    for name, count in layout.left_out.items():
        yield f"{name!r} is left out of {counted(count, 'request')}: no room for it, or another API's"
    found = layout.simulated
    if found is None or not found.turns:
        return
    silent = sum(turn.billed is None or turn.billed.read_tokens is None for turn in found.turns)
    if silent:
        switch = _SWITCHES.get(engine)
        who = f"{counted(silent, 'answer')} of {layout.requests:,}"
        yield f"{who} did not say what was read from a cache{f': {switch}' if switch else ''}"
    first = found.turns[0].billed
    if first is not None and first.read_tokens and first.read_tokens > WARM * (first.uncached_tokens or 0):
        yield (
            f"the cache was warm: the first request read {first.read_tokens:,} tokens that this replay had not sent; "
            "restart the server, or wait until it forgets, for figures of a cold one"
        )
    if engine == LLAMA_CPP and slots is not None and slots != SLOTS:
        again = f"lore simulate CAPTURE --cache {LLAMA_CPP}:slots={slots} prints it again"
        yield f"the server has {counted(slots, 'slot')}, and so has the prediction: {again}"
