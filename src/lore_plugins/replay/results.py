"""Results of `lore replay`: requests that were sent, tokens that the server read, tokens that were predicted."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from lore.model import CommandResult, SimulateResult


class ReplayEstimate(Struct, frozen=True, kw_only=True):
    """What requests would come to before any is sent: tokens (estimated), US dollars as predicted and without a cache.

    Money is None where the prices are not known.
    """

    requests: int
    prompt_tokens: int
    dollars: float | None
    dollars_uncached: float | None


class ReplayedLayout(Struct, frozen=True, kw_only=True):
    """One layout of the session, sent to the server.

    `capture` is the file that was written (empty: none), `requests` are those that it holds, `resumed` of them a run
    before sent, of `planned` in all. `skipped` counts requests of the recording that are not sent, by the reason;
    `unsent` names the first of them, as a command does (`#3`). `left_out` counts the requests that lack a member of
    what was recorded. `assembled`: lore put the prompts together; in `moved_turns` of them text that varies,
    `moved_bytes` in all, stands in the tail and not in the system prompt, where it was recorded. `same_as` names the
    layout that sends the same bytes, in whose place nothing was sent. `read_share` is what was read of all prompt
    tokens, `computed_tokens` what was not, None where the server does not say it. `simulated` is what `lore simulate`
    says of the capture; None where it holds nothing.
    """

    name: str
    dialect: str
    tail: str | None
    capture: str
    planned: int
    requests: int
    resumed: int
    skipped: dict[str, int]
    left_out: dict[str, int]
    same_as: str | None = None
    prompt_tokens: int | None = None
    read_tokens: int | None = None
    read_share: float | None = None
    computed_tokens: int | None = None
    assembled: bool = False
    moved_turns: int = 0
    moved_bytes: int = 0
    unsent: dict[str, list[str]] = {}
    simulated: SimulateResult | None = None

    SHOWN: ClassVar[dict[str, str]] = {
        "capture": "file", "left_out": "own", "skipped": "own", "same_as": "own", "tail": "own", "unsent": "own",
    }  # fmt: skip


class LayoutComparison(Struct, frozen=True, kw_only=True):
    """The layout that reads the largest share of its prompts beside the `next` one.

    `lead` is the difference of their shares (0 to 1); whichever one request is left out of both, it is from
    `lead_least` to `lead_most`. `computes_least` has the fewest tokens that were not read: prompts of layouts differ in
    size.
    """

    best: str
    next: str
    lead: float
    lead_least: float
    lead_most: float
    computes_least: str

    SHOWN: ClassVar[dict[str, str]] = {"best": "own", "next": "own", "computes_least": "own"}


class Replayed(CommandResult, frozen=True, kw_only=True):
    """`lore replay --json`. `server` is shown without a password or a query; `cache` is the model that predicts, None
    where it is the one of whoever is known to serve each turn. `reads_most` names a layout, None where no two were
    compared, or none reads more than chance. `comparison` is None where no two layouts were sent whole. `stopped` says
    why the run ended before its end, None where it did not; `interrupted`: by Ctrl-C.
    """

    recording: str
    server: str
    engine: str | None
    version: str | None
    cache: str | None
    layouts: list[ReplayedLayout]
    reads_most: str | None
    comparison: LayoutComparison | None
    estimate: ReplayEstimate | None
    stopped: str | None
    interrupted: bool
    notes: list[str]

    SHOWN: ClassVar[dict[str, str]] = {"recording": "file", "server": "file", "reads_most": "own", "stopped": "own",
                                       "version": "own"}  # fmt: skip
