"""Recorded requests to turns: each body parsed, made whole where it continues others, put into its chain.

In: reads that hold exchanges. Out: a turn for each that can be judged, in order; what cannot is a problem.
"""

from __future__ import annotations

import os

import msgspec

from lore.formats.base import Read
from lore.formats.lines import is_crowded, too_many
from lore.formats.said import said
from lore.model.endpoints import model_in
from lore.model.exchange import Exchange
from lore.model.problems import Problem
from lore.model.prompt import Prompt
from lore.model.turn import Turn
from lore.prefix.chains import Chains
from lore.prefix.dropped import without_dropped
from lore.prompt.base import Dialect, Memo
from lore.prompt.dialects import dialect_of
from lore.recording.problems import Problems
from lore.recording.response_chaining import Continuations


class Exchanges:
    """The requests of one recording so far; `memos` are shared by recordings that are compared."""

    def __init__(self, shown: str, problems: Problems, memos: dict[str, Memo]) -> None:
        self._shown = shown
        self._problems = problems
        self._memos = memos  # by dialect: each slices messages its own way
        self._chains = Chains(said=said)
        self._continuations = Continuations()

    def forgotten(self) -> list[str]:
        """Name the chains that no turn will continue any more, each once."""
        return self._chains.forgotten()

    def turn(self, read: Read, exchange: Exchange, dialect: Dialect | None) -> Turn | None:
        """Return the next request as a turn, in the dialect asked for, else its own; None where it has none."""
        prompt = self._prompt(read, exchange, dialect)
        if prompt is None:
            return None
        link = self._chains.link(prompt, exchange)
        return Turn(
            link.chain, link.turn, prompt, asked=exchange.at, answered=exchange.answered,
            usage=exchange.usage, verdict=exchange.verdict, call=exchange.call, line=read.line, byte=read.byte,
            file=os.path.join(self._shown, read.file) if read.file else "",
            given_up=self._chains.given_up,
        )  # fmt: skip

    def _prompt(self, read: Read, exchange: Exchange, dialect: Dialect | None) -> Prompt | None:
        if is_crowded(exchange.body):
            return self._odd(read, "LORE220", f"a request is passed over: {too_many()}")
        dialect = dialect or dialect_of(exchange.body)
        if dialect is None:
            return self._odd(read, "LORE210", "a body of no known dialect")
        parsed = dialect.parse(exchange.body, exchange.fidelity, self._memos.setdefault(dialect.name, Memo()))
        if parsed.model is None and (named := model_in(exchange.call.endpoint)) is not None:
            parsed = msgspec.structs.replace(parsed, model=named)
        whole, missing = self._continuations.whole(parsed, exchange, dialect)
        if missing:
            said = f"a request continues {missing}, which is not recorded whole: its prompt is partial"
            self._odd(read, "LORE132", said)
        return without_dropped(whole, exchange.call.endpoint)

    def _odd(self, read: Read, code: str, said: str) -> None:
        self._problems.add(Problem(code, said), self._shown, read.line, read.byte)
