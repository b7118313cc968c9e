"""What `lore replay` answers: what was sent where, and what the server says it read beside what was predicted."""

from __future__ import annotations

from msgspec import Struct

from lore.model.results import Result
from lore.model.results_simulate import Simulated


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
    `left_out` the requests that lack a member of what was recorded. `same_as` names the layout that sends the same
    bytes, in whose place nothing was sent. `read_share` is what was read of all prompt tokens, None where the server
    does not say it. `simulated` is what `lore simulate` says of the capture; None where it holds nothing.
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
    simulated: Simulated | None = None


class Replayed(Result, frozen=True, kw_only=True):
    """`lore replay --json`. `server` is shown without a password or a query; `cache` is the model that predicts, None
    where it is the one of whoever is known to serve each turn. `reads_most` names a layout, None where no two were
    compared, or none reads more. `stopped` says why the run ended before its end, None where it did not;
    `interrupted`: by Ctrl-C.
    """

    recording: str
    server: str
    engine: str | None
    version: str | None
    cache: str | None
    layouts: list[ReplayedLayout]
    reads_most: str | None
    estimate: ReplayEstimate | None
    stopped: str | None
    interrupted: bool
    notes: list[str]
