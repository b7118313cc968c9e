"""Signals of a transcript after which a read may fall, and where the text is that they move or remove.

Example: a hook adds text to a prompt. At the user's next message some versions of Claude Code move that text to the end
of the prompt, so that everything after its old place is another prompt. The signal is shown by the turn whose log
records the hook, waits, and belongs again, as `is_delayed`, to the turn of that next message.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.falls import find_fall
from lore.cache.served import normal_name
from lore.cache.transcript_history import Growth, ModelHistory
from lore.model.codes import Code
from lore.model.state import HOOKS, Sign
from lore.model.turn import Turn

REASONING, IMAGE = "reasoning", "image"  # names of signals: reasoning in the history, and images
_NO_FIRST_THINKING, _TEAMMATE = "first-without-thinking", "teammate"
_KEPT_REASONING = "kept-reasoning"  # a key of waiting signals: reasoning of earlier prompts that seemed to stay
_TEAMMATE_REQUESTS = (1, 2)  # requests before those of a teammate whose reads fall
_EFFECT_AT_PROMPT = (*HOOKS, "skill")  # signals whose text may be moved at the next prompt of the user
_AFTER_RESULTS = ("PreToolUse", "PostToolUse")  # hooks whose text follows tool results; others' follows a prompt


class Signal(Struct, frozen=True):
    """A signal of the log that may make the read fall."""

    name: str  # a key of `model.state.SIGNS`, `reasoning`, `first-without-thinking` or `thinking-off`
    version: str = ""  # of the client; empty: unknown
    is_first: bool = False  # no earlier turn of the chain showed this signal
    is_delayed: bool = False  # an earlier turn showed it; its text may move now, at the user's next prompt
    entries: int = 0  # if it is delayed: entries of the timeline before its text
    names: tuple[str, ...] = ()  # if it is delayed: what added its text
    text: str = ""  # if it is delayed: the beginning of a hook's text
    line: int | None = None  # if it is delayed: the line of the log that recorded its text
    read_if_moved: int | None = None  # if the text moves: tokens that can still be read; None: only the head
    tokens_before: int | None = None  # if it is delayed: cached tokens before its text, also those out of reach


class ChainSignals:
    """The signals of one chain: those of each turn, and those whose text waits for the user's next prompt."""

    def __init__(self) -> None:
        self._shown: set[str] = set()  # names of signals that a turn showed
        self._waiting: dict[str, Signal] = {}  # those whose text may be moved at the next prompt of the user, by name
        self._turns = 0
        self._prompts = 0  # of the user, after the first request
        self._has_thinking = False  # thinking is in the log

    def observe(
        self, turn: Turn, history: ModelHistory, grown: Growth, start: int, *, version: str, is_extended: bool,
        drops_thinking: bool,
    ) -> tuple[Signal, ...]:  # fmt: skip
        """Return the next turn's signals; at a prompt of the user also those of text that waited for it.

        `grown` are the entries of the turn from `start` on; `is_extended`: they follow all earlier ones. `version` is
        the client's; `drops_thinking`: they have thinking, which the provider omits from the user's next prompt on.
        """
        if any(change.cause == Code.COMPACTION for change in turn.changes):
            self._waiting.clear()
        self._has_thinking = self._has_thinking or grown.has_thinking
        if drops_thinking:
            self._waiting.setdefault(REASONING, Signal(REASONING, is_delayed=True, entries=start))
        signals = list(self._signals_of_beginning(turn, grown, version))
        if grown.prompted:
            for signal in self._waiting.values():
                place, read = history.last_within(signal.entries), history.read_within(signal.entries, turn.at)
                tokens_before = None if place is None else place.tokens
                signals.append(replace(signal, read_if_moved=read, tokens_before=tokens_before))
            self._prompts += bool(self._turns)
            self._waiting.clear()
        for sign in turn.signs:
            if not (grown.prompted and sign.name in _EFFECT_AT_PROMPT):
                name = "thinking-off" if sign.name == "thinking" and sign.after == "off" else sign.name
                signals.append(Signal(name, sign.version, is_first=sign.name not in self._shown))
            self._shown.add(sign.name)
            if grown.prompted and sign.name == IMAGE:  # the client may replace it at the next prompt
                self._waiting[IMAGE] = Signal(IMAGE, is_delayed=True, entries=start)
            elif not grown.prompted and sign.name in _EFFECT_AT_PROMPT:
                self._add_waiting(sign, start if is_extended else None)
        self._turns += 1
        return tuple(signals)

    def keep_reasoning(self, reasoning: Signal) -> None:
        """Let reasoning wait again: usage shows that this prompt had it, so that a later one may omit it."""
        self._waiting = {_KEPT_REASONING: reasoning, **self._waiting}

    def _signals_of_beginning(self, turn: Turn, grown: Growth, version: str) -> Iterator[Signal]:
        """Yield the signals that the first requests of some chains have without a record in the log."""
        is_second_prompt = grown.prompted and not self._prompts
        applies = {
            _NO_FIRST_THINKING: is_second_prompt and not self._has_thinking,
            _TEAMMATE: _TEAMMATE in self._shown and (is_second_prompt or self._turns in _TEAMMATE_REQUESTS),
        }
        model = normal_name(turn.model)
        for name in (name for name, is_shown in applies.items() if is_shown):
            if find_fall(name, at_prompt=grown.prompted, is_first=True, version=version, model=model) is not None:
                yield Signal(name, version, is_first=True)

    def _add_waiting(self, sign: Sign, entries: int | None) -> None:
        """Remember text that follows that many entries; None: the history changed, so that its place is unknown."""
        waiting, is_hook = self._waiting.get(sign.name), sign.name in HOOKS
        if waiting is None and entries is None:
            return
        if is_hook and sign.names and not any(name.startswith(_AFTER_RESULTS) for name in sign.names):
            return
        first = waiting or Signal(sign.name, entries=entries or 0, text=sign.after, line=sign.line)
        self._waiting[sign.name] = replace(
            first, version=sign.version, is_delayed=True, names=tuple(dict.fromkeys((*first.names, *sign.names))),
            text=(first.text or sign.after) if is_hook else "",
        )  # fmt: skip
