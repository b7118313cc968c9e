"""Signals of a log after which most reads fell by over 1,000 tokens, and the part of the prompt that was not read.

Counted over 38,782 transitions of 769 Claude Code sessions and 6,589 of 89 Codex sessions. Signals after which at least
half of the reads did not fall predict nothing: slash commands (23 falls of 52), permission modes (8 of 32), other tools
(10 of 67), interrupts (19 of 100), images (2 of 82); of API errors 9 of 18 fell.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_Version = tuple[int, ...]


class Fall(NamedTuple):
    """A signal after which most reads fell."""

    sign: str  # a name in `model.state.SIGNS`, or `reasoning`
    moves: Literal["head", "history", "text"]  # not read: the whole prompt, all messages, or those from the text on
    at_prompt: bool = False  # only at a prompt of the user
    first: bool = False  # only the first time that a chain shows the signal
    models: tuple[str, ...] = ("",)  # how names of models begin
    since: _Version = ()  # of the client; an unknown version is before it
    before: _Version = ()
    provider: str = "anthropic"


FALLS = (
    Fall("hook-context", "text", at_prompt=True),  # 41 of 42: text of hooks after results, since the last prompt
    Fall("no-thinking", "history", at_prompt=True, models=("claude-opus-4-5", "claude-sonnet-4-5")),  # 26 of 27
    Fall("tool-reference", "head", first=True, since=(2, 1, 119), before=(2, 1, 209)),  # 20 of 21, later ones 1 of 12
    Fall("effort", "history"),  # 3 of 3
    Fall("client-version", "head"),  # 2 of 2
    Fall("restart", "head"),  # 7 of 8
    Fall("skill", "text", at_prompt=True, before=(2, 1, 59)),  # 31 of 42: used since the last prompt
    Fall("resume", "history"),  # 2 of 3
    Fall("reasoning", "text", at_prompt=True, provider="openai"),  # 352 of 573: left out from the next prompt on
)
# Providers whose reads are nearly random: the requests without a signal that read less, and the number of all.
RANDOM_READS = {"gemini": (205, 380)}


def find_fall(
    sign: str, *, prompted: bool, first: bool, version: str, model: str, provider: str = "anthropic"
) -> Fall | None:
    """Return the fall that a signal predicts; None if it predicts none.

    `prompted`: the request brings a new prompt of the user. `model` is spelled as `normal_name` spells it.
    """
    number = version_of(version)
    return next((
        fall for fall in FALLS
        if fall.sign == sign and fall.provider == provider and model.startswith(fall.models)
        and (prompted or not fall.at_prompt) and (first or not fall.first)
        and fall.since <= number and (not fall.before or () < number < fall.before)
    ), None)  # fmt: skip


_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,5}", re.ASCII)


def version_of(text: str) -> _Version:
    """Return the numbers of a version (`2.1.119-beta` is `2.1.119`); empty if the text does not begin with one."""
    match = _VERSION.match(text)
    return tuple(map(int, match[0].split("."))) if match else ()
