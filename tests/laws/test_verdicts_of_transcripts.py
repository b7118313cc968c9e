"""Laws of verdicts about transcripts, for any signals, usage, times and verdicts of the provider.

1. Lost tokens are at most those sent and not read, and at most those cached and not read.
2. The leading cause is in the section that the provider's verdict names, and expected only if the log records it.
3. Contradicted causes are listed after it, marked, and named in the verdict's evidence.
4. If the read reaches the breakpoint before the last, the cause is not in tools or system prompt.
5. A weak cause is never waste.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cache.talk import bill
from judge.judged import Judged
from lore.judge.base import findings_of
from lore.judge.witnesses import CLIENTS
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.evidence import ProviderSaid, RecordedChange
from lore.model.state import SIGNS, Sign

PLACE = Place("a.jsonl")
VERSIONS = ("", "2.1.58", "2.1.59", "2.1.118", "2.1.119", "2.1.207", "2.1.209")
MODELS = ("claude-opus-4-5", "claude-opus-5", "claude-x")
OF_THE_LOG = (Code.REWIND, Code.MODEL_CHANGED, Code.COMPACTION)
WHOLE_HEAD = (Code.CLIENT_UPDATED, Code.CLIENT_RESTARTED, Code.SESSION_CHANGED)

signs = st.lists(
    st.builds(Sign, st.sampled_from(sorted(SIGNS)), version=st.sampled_from(VERSIONS)), max_size=3, unique_by=str
)
steps = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(("use", "ask", "compact", "rewind", "nothing")),
        "share": st.sampled_from((0.0, 0.3, 0.5, 0.8, 0.98, 1.0, 1.1)),
        "write": st.sampled_from((0, 10, 900, 3_000, 20_000)),
        "after": st.sampled_from((1.0, 20.0, 299.0, 301.0, 3_000.0)),
        "signs": signs,
        "verdict": st.sampled_from(("", *CLIENTS, "previous_message_not_found", "unavailable", "to_come")),
    }
)


def judged(talk, step):
    """Return the verdict about one more turn of a conversation."""
    changes = ()
    match step["kind"]:
        case "use":
            talk.use()
        case "ask":
            talk.ask()
        case "compact":
            changes = (talk.compact(),)
        case "rewind" if len(talk.entries) > 1:
            changes = (talk.rewind(len(talk.entries) - 1),)
        case _:
            pass
    usage = talk.last.usage
    read = round((usage.read_tokens + usage.write_tokens) * step["share"])
    talk.turn(
        bill(read, step["write"]), after=step["after"], changes=changes, signs=tuple(step["signs"]),
        verdict=step["verdict"],
    )  # fmt: skip
    return talk.verdict


@given(st.sampled_from(MODELS), st.lists(steps, min_size=1, max_size=8))
def test_laws_of_verdicts(model, plan):
    talk = Judged()
    talk.model = model
    talk.open()
    for step in plan:
        before = talk.last.usage
        verdict = judged(talk, step)
        asked = talk.last.usage.write_tokens + talk.last.usage.uncached_tokens
        missed = max(0, before.read_tokens + before.write_tokens - talk.last.usage.read_tokens)
        assert verdict.lost_tokens <= min(asked, missed)
        if verdict.pair.uncacheable:  # the prompt is too short to be cached
            assert verdict.lost_tokens == 0
        elif verdict.pair.fell and verdict.causes:
            assert verdict.lost_tokens == min(asked, missed)
        for cause in verdict.causes:
            if cause.code == Code.VERDICT_DISAGREES:
                assert verdict.causes[0].section not in ("tools", "system") or verdict.causes[0].code in WHOLE_HEAD
                continue
            assert_consistent(talk, cause, step["verdict"], verdict)


def assert_consistent(talk, cause, reason, verdict):
    """Assert that a leading cause fits the provider's verdict and the read."""
    assert cause.kind != "waste" or cause.strength != "weak"
    if not verdict.pair.fell:
        return
    section = CLIENTS.get(reason)
    if section is not None:
        whole = cause.code in WHOLE_HEAD and section in ("tools", "system")
        assert cause.section in (None, section) or whole
        if cause.kind == "expected":
            assert isinstance(cause.evidence, RecordedChange) or cause.code in OF_THE_LOG
        against = [other for other in cause.also if "contradicted" in other.qualifiers]
        reported = [other.evidence for other in (cause, *cause.also) if isinstance(other.evidence, ProviderSaid)]
        assert {code for evidence in reported for code in evidence.contradicts} == {other.code for other in against}
        shown = [made for _, made in findings_of(verdict.pair, PLACE)]
        assert [also.code for made in shown for also in made.also if also.contradicted] == [o.code for o in against]
    read, seen = talk.last.usage.read_tokens, talk.state
    if cause.section in ("tools", "system") and not isinstance(cause.evidence, RecordedChange | ProviderSaid):
        assert seen.earlier_position is None or read < seen.earlier_position
