"""The JSON results of `lore replay`. `SHOWN` names what --redact keeps: lore's "own" words, and names of a "file"."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from lore.model import CommandResult, SimulateResult


class ReplayEstimate(Struct, frozen=True, kw_only=True):
    """An estimate before anything is sent."""

    requests: int
    prompt_tokens: int  # estimated
    dollars: float | None  # with the predicted reads; null: prices are unknown
    dollars_uncached: float | None  # without a cache


class ReplayedLayout(Struct, frozen=True, kw_only=True):
    """One layout of the session, sent to the server."""

    name: str
    dialect: str  # of its request bodies; several are joined by commas
    tail: str | None  # where volatile context is; null: as recorded
    capture: str  # the file that was written, "" for none
    planned: int  # requests of the layout
    requests: int  # requests in the capture
    resumed: int  # of these, requests sent by earlier runs
    skipped: dict[str, int]  # recorded requests that are not sent, by reason
    left_out: dict[str, int]  # requests that are sent without a member of the recorded body, by member
    same_as: str | None = None  # the layout with the same bytes, in whose place nothing was sent
    prompt_tokens: int | None = None
    read_tokens: int | None = None  # null: the server does not report it
    read_share: float | None = None  # of all prompt tokens
    computed_tokens: int | None = None  # prompt tokens that were not read
    assembled: bool = False  # whether lore assembled the prompts
    moved_turns: int = 0  # turns in which changing text of the system prompt was moved to the tail
    moved_bytes: int = 0  # bytes of that text in all turns
    unsent: dict[str, list[str]] = {}  # the first turns that are not sent (`#3`), by reason
    simulated: SimulateResult | None = None  # the result of `lore simulate` for the capture

    SHOWN: ClassVar[dict[str, str]] = {
        "capture": "file", "left_out": "own", "skipped": "own", "same_as": "own", "tail": "own", "unsent": "own",
    }  # fmt: skip


class Replayed(CommandResult, frozen=True, kw_only=True):
    """`lore replay --json`."""

    recording: str
    server: str  # without password and query
    engine: str | None
    version: str | None
    cache: str | None  # the cache model of --cache; null: that of each turn's provider
    layouts: list[ReplayedLayout]
    reads_most: str | None  # a layout; null if none is clearly best, or no two were sent whole
    estimate: ReplayEstimate | None
    stopped: str | None  # why the run ended early
    interrupted: bool  # by Ctrl-C
    notes: list[str]

    SHOWN: ClassVar[dict[str, str]] = {"recording": "file", "server": "file", "reads_most": "own", "stopped": "own",
                                       "version": "own"}  # fmt: skip
