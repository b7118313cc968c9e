"""Why a billed read fell: one cause a drop, its evidence graded, or what was ruled out.

In: what was known before the bill (`Situation`), the bill, the provider's verdict. Out: a `Drop`, or None where
there was none. Rules: the first cause in `_CAUSES` that applies holds; strong evidence comes before weak, and a
provider's verdict is strong; what contradicts the verdict is said, not hidden; what nothing explains is
unattributable, with what was looked at and not found.

Sources: what explained 958 drops of 38,782 billed transitions, and how likely a drop is where the evidence is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from lore.cache.growth import runs_collapse
from lore.cache.lifetime import FIVE_MINUTES, ONE_HOUR
from lore.cache.turn_context import DROP, POSITIONS, SOON, Situation
from lore.model.events import Billed, Verdict
from lore.model.signs import SIGNS
from lore.model.state import Sign

Grade: TypeAlias = Literal["strong", "weak", "none"]


class Drop(NamedTuple):
    """A read that fell short by `lost` tokens.

    `name` says why, `code` is the finding that it is reported as; `evidence` is a sentence, `grade` how much it
    is worth; `others` are other things that were seen, `ruled_out` what was looked at and is not so.
    """

    lost: int
    name: str
    code: str
    grade: Grade
    evidence: str
    others: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    foreseen: bool = False


# A cause's name -> the code of its finding. Where there is no code of its own, that of a read that fell.
FELL = "LORE301"
NAMES: dict[str, str] = {
    "expiry": "LORE128",
    "compaction": "LORE125",
    "model": "LORE119",
    "session-changed": "LORE145",
    "rewind": "LORE143",
    "micro-compaction": "LORE117",
    "shrunk": "LORE143",
    "effort": "LORE120",
    "client-version": FELL,
    "tool-reference": "LORE124",
    "tools-delta": "LORE103",
    "instructions-delta": "LORE145",
    "lookback": "LORE113",
    "older-entry": "LORE155",
    "hook-context": "LORE111",
    "resume": "LORE123",
    "image": "LORE118",
    "messages_changed": FELL,
    "system_changed": "LORE145",
    "tools_changed": "LORE103",
    "model_changed": "LORE119",
    "previous_message_not_found": "LORE128",
    "idle": FELL,
    "skill": FELL,
    "slash-command": FELL,
    "interrupt": FELL,
    "api-error": FELL,
    "permission-mode": FELL,
    "unattributable": FELL,
}


class _Seen(NamedTuple):
    situation: Situation
    usage: Billed
    at: float | None

    @property
    def read(self) -> int:
        return self.usage.read_tokens or 0


class _Reason(NamedTuple):
    name: str
    evidence: str
    grade: Grade = "strong"


def drop(situation: Situation, usage: Billed | None, verdict: Verdict | None, at: float | None = None) -> Drop | None:
    """Explain a turn whose read fell; None where it did not, or where what stood or was read is not known."""
    if situation.stood is None or usage is None or usage.read_tokens is None:
        return None
    lost = situation.stood - usage.read_tokens
    if lost <= DROP:
        return None
    seen = _Seen(situation, usage, at)
    reasons = [reason for look in _CAUSES if (reason := look(seen)) is not None]
    said = _said(verdict)
    strong = [reason for reason in reasons if reason.grade == "strong"]
    ranked = strong if said is None else [*strong, said]
    weak = [reason for reason in (*reasons, *_weak(seen)) if reason.grade == "weak"]
    every = [*ranked, *weak]
    if not every:
        return Drop(
            lost, "unattributable", FELL, "none", "nothing that is recorded explains it",
            ruled_out=_ruled_out(seen, verdict), foreseen=situation.foreseen,
        )  # fmt: skip
    first = every[0]
    others = tuple(f"{one.name}: {one.evidence}" for one in every[1:])
    return Drop(lost, first.name, NAMES[first.name], first.grade, first.evidence, others, foreseen=situation.foreseen)


def _said(verdict: Verdict | None) -> _Reason | None:
    """Take the provider's verdict; `unavailable` says nothing."""
    if verdict is None or verdict.reason not in NAMES:
        return None
    missed = "" if verdict.missed_tokens is None else f", {verdict.missed_tokens:,} tokens missed"
    return _Reason(verdict.reason, f"the provider says {verdict.reason}{missed}")


# strong, the first that applies


def _compaction(seen: _Seen) -> _Reason | None:
    said = seen.situation.changed("LORE125")
    return _Reason("compaction", said) if said else None


def _model(seen: _Seen) -> _Reason | None:
    left, right = seen.situation.models
    return _Reason("model", f"model changed from {left} to {right}") if left != right else None


def _expiry(seen: _Seen) -> _Reason | None:
    """An entry that was not read after its lifetime died of age: then there is no grace."""
    pause, lifetime = seen.situation.pause, seen.situation.lifetime
    if pause is None or lifetime is None or pause <= lifetime:
        return None
    return _Reason("expiry", f"{pause:,.0f} s since the last answer began; what it wrote lives {lifetime:,.0f} s")


def _cleared(seen: _Seen) -> _Reason | None:
    said = seen.situation.changed("LORE117")
    return _Reason("micro-compaction", said) if said else None


def _rewound(seen: _Seen) -> _Reason | None:
    said = seen.situation.changed("LORE143")
    return _Reason("rewind", said) if said else None


def _session(seen: _Seen) -> _Reason | None:
    said = seen.situation.changed("LORE145")
    return _Reason("session-changed", said or "tools or system prompt differ") if seen.situation.moved_head else None


def _shrunk(seen: _Seen) -> _Reason | None:
    same, size = seen.situation.same, seen.situation.size
    return _Reason("shrunk", f"history is the same up to entry {same:,} of {size:,}") if same < size else None


def _older(seen: _Seen) -> _Reason | None:
    pause, earlier = seen.situation.pause, seen.situation.earlier
    if pause is None or pause > SOON or not seen.read or seen.read != earlier:
        return None
    return _Reason(
        "older-entry", f"asked {pause:.1f} s after the last answer began; exactly the breakpoint before was read"
    )


def _hook(seen: _Seen) -> _Reason | None:
    one = seen.situation
    if one.waiting is None or not one.grown.prompted:
        return None
    said = f"a hook's text came in after entry {one.waiting:,}, beside a result, before the user spoke again"
    return _Reason("hook-context", said, "strong" if seen.read == one.put_back else "weak")


def _lookback(seen: _Seen) -> _Reason | None:
    reach = seen.situation.reach
    if reach <= POSITIONS or runs_collapse(seen.at):
        return None
    return _Reason("lookback", f"{reach} positions behind the last breakpoint, {POSITIONS} are looked back")


def _details(sign: Sign) -> str:
    if sign.before or sign.after:
        return f" (from {sign.before} to {sign.after})"
    names = (*sign.names, *sign.removed)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" ({', '.join(names[:_SHOWN])}{more})" if names else ""


_SHOWN = 3  # names of a sign


def _sign(name: str, grade: Grade) -> Callable[[_Seen], _Reason | None]:
    def look(seen: _Seen) -> _Reason | None:
        for sign in seen.situation.signs:
            if sign.name == name:
                return _Reason(name, SIGNS[name] + _details(sign), grade)
        return None

    return look


_CAUSES: tuple[Callable[[_Seen], _Reason | None], ...] = (
    _compaction, _model, _expiry, _cleared, _rewound, _session,
    _sign("client-version", "strong"), _sign("effort", "strong"), _sign("tool-reference", "strong"),
    _shrunk, _older, _lookback, _hook, _sign("tools-delta", "strong"),
)  # fmt: skip


# weak


def _idle(seen: _Seen) -> _Reason | None:
    pause, lifetime = seen.situation.pause, seen.situation.lifetime
    if pause is None or lifetime != ONE_HOUR or not FIVE_MINUTES < pause <= ONE_HOUR:
        return None
    return _Reason("idle", f"{pause:,.0f} s since the last answer began, within a lifetime of an hour", "weak")


_WEAK = (
    "resume", "api-error", "slash-command", "micro-compaction", "permission-mode", "interrupt",
    "instructions-delta", "skill", "image",
)  # fmt: skip


def _weak(seen: _Seen) -> list[_Reason]:
    found = [_idle(seen), *(_sign(name, "weak")(seen) for name in _WEAK)]
    return [reason for reason in found if reason is not None]


def _ruled_out(seen: _Seen, verdict: Verdict | None) -> tuple[str, ...]:
    one = seen.situation
    pause = "not known" if one.pause is None else f"{one.pause:,.0f} s"
    lifetime = "not known" if one.lifetime is None else f"{one.lifetime:,.0f} s"
    said = "the provider says nothing" if verdict is None else f"the provider says {verdict.reason}"
    return (
        f"expiry: pause {pause}, lifetime {lifetime}",
        "compaction, micro-compaction, rewind: history only grew",
        f"model: still {one.models[1]}",
        f"lookback: {one.reach} positions behind the last breakpoint",
        "tools, effort, client: no change is recorded",
        f"verdict: {said}",
    )
