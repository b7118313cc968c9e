"""Evidence that many turns of a chain, several requests, or a whole run show; `lore.model.evidence` has the rules."""

from __future__ import annotations

from typing import Literal, TypeAlias

from lore.model.fact import Content, EvidenceFact, JsonPath, Model, Name, Number, Own, format_share


class WritesUnread(EvidenceFact, frozen=True):
    """Tokens were written to the cache, another turn followed in time, and no usage shows a read of them."""

    words = (
        "{turns} turns wrote {tokens:,} tokens to the cache, each followed by another turn within their lifetime, and "
        "nothing in this recording reads any of them"
    )
    tokens: int  # that all these turns wrote
    turns: int  # that wrote them


class SharedBlock(EvidenceFact, frozen=True):
    """Requests of different conversations begin alike, and no breakpoint is at the end of what they share."""

    words = (
        "{requests:count request} paid the full price of about {tokens:,} tokens up to {inside:=0?|byte {inside:,} of }"
        "{path}, with which a request of another conversation had begun: {inside:=0?no breakpoint is at the end of "
        "them|a breakpoint is possible only at the end of a block}{marked:?; the next one, on {marked}, covers text "
        "that differs}"
    )
    fix_word = "{inside:=0?|split}"
    tokens: int  # that they share and the first of them neither read nor found at a breakpoint
    requests: int  # that paid for them again
    path: JsonPath  # of the last segment that they share, or share the beginning of
    inside: int = 0  # bytes of it that they share; 0: all of it
    marked: JsonPath = ""  # of the first breakpoint after it; empty: there is none


PlateauReason: TypeAlias = Literal[
    "billing-header", "engine", "engine-reads-nothing", "cache-prompt-off", "no-explicit-breakpoint",
    "breakpoint-not-honoured", "marked-prefix", "ignored-breakpoint", "changing-key", "changing-provider",
    "no-cache-key", "never-cached", "no-guarantee",
]  # fmt: skip
_REASONS: dict[PlateauReason, str] = {
    "billing-header": "the billing header differs in each request, and this provider treats it as content",
    "engine": "{cache} reads what a slot, or its cache of limited size, still holds",
    "engine-reads-nothing": "as if {cache} were started without a prefix cache, or its blocks were very long",
    "cache-prompt-off": "cache_prompt is false, so the server reuses nothing",
    "no-explicit-breakpoint": "prompt_cache_options asks for explicit breakpoints, and the request has none",
    "breakpoint-not-honoured": "nothing was written at its breakpoints either, as if a gateway had removed them",
    "marked-prefix": "a gateway may keep what precedes its last cache_control, and nothing after that",
    "ignored-breakpoint": "its breakpoints have no effect: this cache keeps prompts by itself",
    "changing-key": "{field} differs from request to request, and each value may have a cache of its own",
    "changing-provider": "other providers answer from request to request, and each has a cache of its own",
    "no-cache-key": "without a cache key the beginning of the prompt alone decides which machine is asked",
    "never-cached": "perhaps a gateway omits breakpoints or counts the head as uncached, or each prompt's end is new",
    "no-guarantee": "Gemini's implicit cache gives no guarantee",
}


class ReadPlateau(EvidenceFact, frozen=True):
    """Reads stayed at one level while more and more of the prompt was repeated."""

    read_tokens: int  # in each of the requests; 0: nothing was ever read
    repeated_tokens: int  # of the previous request, in the last of them; never-cached: at least, in each of them
    turns: int  # requests that paid for more than they read, and that no other finding is about
    reasons: tuple[PlateauReason, ...]  # that the request shows; empty: none, so it is routing, or a full cache
    cache: Own = ""  # the cache model; empty: unknown
    field: Own = ""  # the request's field that differs
    read_others: bool = False  # other requests of the conversation read something

    @property
    def requests(self) -> int:
        """How many requests could have read more, as for `SharedBlock`."""
        return self.turns

    def fix_detail(self) -> str:
        return self.reasons[0] if self.reasons else ""

    def sentence(self) -> str:
        if self.reasons == ("never-cached",):
            return (
                f"{self.turns} requests in a row each paid the full price for at least {self.repeated_tokens:,} tokens "
                f"that the previous one had sent, too: they were neither read from the cache nor written to it; "
                f"{_REASONS['never-cached']}"
            )
        much = f"no more than {self.read_tokens:,} tokens were" if self.read_tokens else "nothing was"
        reasons = [_REASONS[reason].format(cache=self.cache, field=self.field) for reason in self.reasons]
        unknown = (
            "requests reached other machines, or the cache was full"
            if self.read_tokens or self.read_others
            else "this endpoint does not cache such requests, or does not report cached tokens"
        )
        why = "; ".join(reasons) or f"no reason is recorded; perhaps {unknown}"
        in_a_row = f"{self.turns} requests in a row, though the last of them"
        return (
            f"{much} read in {'a request that' if self.turns == 1 else in_a_row} repeats {self.repeated_tokens:,} "
            f"tokens of the previous one: {why}"
        )


class ReadBelowForecast(EvidenceFact, frozen=True):
    """A smaller read than predicted from another turn's prompt."""

    words = (
        "the rules of {cache} ({reason}) predict a read of {exact:?|about }{expected_tokens:,} tokens, {read_tokens:,} "
        "were read; turn {turn}{chain:? of chain {chain}} used the same beginning {seconds:duration} earlier; ruled "
        "out, as far as recorded: expiry, an entry that is not readable yet, {model:?model ({model}), }breakpoints, "
        "parameters, endpoint"
    )
    expected_tokens: int  # the predicted read
    read_tokens: int  # tokens that were read
    exact: bool  # the prediction counts tokens; else it estimates them
    cache: Own  # the cache model
    reason: Own  # its rule
    turn: int  # the turn that used the same beginning
    chain: Name | None  # of that turn; None: the same chain
    seconds: float  # since that turn
    model: Model | None  # that was asked; None: unknown


class OverBudget(EvidenceFact, frozen=True):
    """A figure exceeds its budget; `reuse` falls below it."""

    what: Literal["reuse", "breaks", "lost-tokens"]  # which budget
    value: Number  # a share from 0 to 1 for `reuse`, else a count
    limit: Number  # that the settings allow: of `reuse` the least, else the most
    of: Name = ""  # the entry of `per_path` that the sum belongs to

    def sentence(self) -> str:
        if self.what == "reuse":
            return (
                f"{format_share(self.value)} of the previous prompt could be reused (by its bytes), "
                f"the budget is {format_share(self.limit)}"
            )
        breaks = f"unexpected cache break{'' if self.value == 1 else 's'}"
        what = breaks if self.what == "breaks" else "tokens re-billed"
        where = f" in {self.of}" if self.of else ""
        return f"{self.value:,.0f} {what}{where}, the budget is {self.limit:,.0f}"


class Unneeded(EvidenceFact, frozen=True):
    """An exemption that no finding needs, or a baseline entry that lists more than occur."""

    words = (
        "{what:=path?the exemption from {code} matches no recording: {where} (its reason: {reason})|"
        "{what:=exemption?the exemption from {code}{where:? in {where}} is unused: there is no such finding "
        "(its reason: {reason})|"
        "{code} {where}: {left:=0?no finding matches it|{left} of {entries} still occur}}}"
    )
    fix_word = "{what}"
    what: Literal["exemption", "path", "baseline"]  # which of the two; `path`: an exemption whose path names no file
    code: Own  # that it is about
    where: JsonPath = ""  # path, chain and JSON path that it is limited to; empty: everywhere
    reason: Content = ""  # of the exemption
    entries: int = 0  # findings in the baseline
    left: int = 0  # findings that still occur
