"""Assemble a turn of a session: what `lore assemble` answers.

In: a session log and a turn (the last, unless one is named). Out: the request body, exact bytes. A log
without turns is assembled as it stands at its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from lore.corpus import Name
from lore.errors import LoreError
from lore.model.prompt import Prompt
from lore.prompt.assemble import Assembler
from lore.run.options import Options
from lore.run.problems import Problems
from lore.run.recording import Recording
from lore.run.sides import pick


class Assembly(NamedTuple):
    """The body, the prompt it was written from, what was wrong, and notes about what it leaves out."""

    body: bytes
    prompt: Prompt
    problems: Problems
    notes: tuple[str, ...]


def assemble(name: Name, options: Options) -> Assembly:
    """Assemble one turn; raises LoreError for recordings of requests and turns that do not exist."""
    problems = Problems()
    recording = options.open(name.path, problems)
    if not recording.events:
        raise LoreError(
            f"{recording.shown} holds request bodies, not events: there is nothing to assemble",
            hint="name a session log (lore's own, or Claude Code's)",
        )
    turn = pick(recording, name).turn
    dialect = recording.dialect_for(recording.state)
    if turn is not None:
        prompt, omitted = turn.prompt, turn.omitted
    else:
        state = recording.state
        prompt, _, omitted = Assembler(dialect, options.policy).assemble(state, state.main())
    return Assembly(dialect.write(prompt), prompt, problems, _notes(recording, prompt, omitted))


def _notes(recording: Recording, prompt: Prompt, omitted: Iterable[str]) -> tuple[str, ...]:
    notes = [
        f"{count} {what} block{'s' * (count > 1)} left out: {prompt.dialect} has no place for them"
        for what, count in sorted(Counter(omitted).items())
    ]
    if recording.state.format != "lore" and not any(one.section == "system" for one in prompt.head):
        notes.append("system prompt and tools are not in this recording: the body has only its messages")
    if prompt.dialect == "anthropic" and "max_tokens" not in prompt.params:
        notes.append("the session has no params.max_tokens, which Anthropic's API requires")
    return tuple(notes)
