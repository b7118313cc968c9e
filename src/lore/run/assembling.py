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
from lore.model.items import is_absent
from lore.model.prompt import Prompt
from lore.model.state import Chain
from lore.prompt.assemble import Assembler
from lore.run.completing import Unsaid, rated
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
    recording = options.open(name.path, problems, subagents=name.chain is not None)
    if not recording.events:
        raise LoreError(
            f"{recording.shown} is read as request bodies, not as events: there is nothing to assemble",
            hint="name a session log (lore's own, or Claude Code's)",
        )
    recording.watchful = True
    turn = pick(recording, name).turn
    dialect = recording.dialect_for(recording.state)
    state = recording.state
    if turn is not None:
        chain = state.chain(turn.chain)
        prompt, omitted, unsaid = turn.prompt, turn.omitted, turn.unsaid
    else:
        chain = state.main()
        made = Assembler(dialect, options.policy).assemble(state, chain)
        omitted, unsaid = made.omitted, Unsaid().of(chain.entries)
        prompt = rated(made.prompt, whole=recording.is_whole(chain), left_out=len(omitted) + len(unsaid))
    notes = _notes(recording, prompt, omitted)
    if state.format != "lore":
        notes += _missing(chain, unsaid, completes=chain.id == state.main().id)
    return Assembly(dialect.write(prompt), prompt, problems, tuple(notes))


def _missing(chain: Chain, unsaid: Iterable[str], *, completes: bool) -> list[str]:
    """Say exactly what of a prompt the recording does not hold, or holds in a form that no prompt has."""
    parts = [("the system prompt", "is", "--system", is_absent(chain.system))]
    parts.append(("the tools", "are", "--tools", chain.tools is None))
    missing = [part for part in parts if part[3]]
    notes: list[str] = []
    if missing:
        verb = missing[0][1] if len(missing) == 1 else "are"
        how = f": give {' and '.join(option for _, _, option, _ in missing)}" if completes else ""
        notes.append(f"{' and '.join(name for name, *_ in missing)} {verb} not in this recording{how}")
    records = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in sorted(Counter(unsaid).items())]
    if records:
        notes.append(f"{', '.join(records)} left out: the recording does not show how the model saw them")
    return notes


def _notes(recording: Recording, prompt: Prompt, omitted: Iterable[str]) -> list[str]:
    notes = [
        f"{count} {what} block{'s' * (count > 1)} left out: {prompt.dialect} has no place for them"
        for what, count in sorted(Counter(omitted).items())
    ]
    if prompt.dialect == "anthropic" and "max_tokens" not in prompt.params:
        notes.append("the session has no params.max_tokens, which Anthropic's API requires")
    return notes
