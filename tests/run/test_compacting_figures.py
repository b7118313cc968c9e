"""Figures of a dry run: usage without pruned messages, the window, paid summaries.

Each of these could be wrong (the dearer moment chosen, a compaction that rewrites nothing) with every test green.
"""

import pytest
from msgspec import structs

from helpers.each import each
from lore.compaction.settings import Compaction, ContextSource
from lore.compaction.trial import TrialOutcome
from lore.compaction.turns import usage_after_pruning
from lore.model.events import Usage
from lore.recording.opening import Options
from lore.report.compacted import trial_answer
from lore.run.compaction import dry_run
from lore.run.rules import packaged
from model.making import header, log, record, said, user

PAUSE = 3_600


def at(seconds):
    return f"2026-09-{1 + seconds // 86_400:02}T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def talk(exchanges, *, pause_after=0, size=4_000, extra=()):
    """Exchanges of two long messages a minute apart, billed as a cache bills that is read while it is warm."""
    lines, now, whole = [header(model="claude-sonnet-4-5")], 0, 1_000
    for n in range(1, exchanges + 1):
        cold = n == 1 or (pause_after and n % pause_after == 1)
        now += PAUSE if cold else 60
        read, whole = 0 if cold else whole, whole + size // 2
        usage = {
            "uncached_tokens": 0,
            "read_tokens": read,
            "write_tokens": whole - read,
            "write_5m_tokens": whole - read,
        }
        lines += [
            record("append", item=user(f"u{n}", "x" * size), at=at(now)),
            record("turn_started", turn=n, at=at(now)),
            record("append", item=said(f"a{n}", "y" * size), at=at(now + 5)),
            record("turn_completed", turn=n, at=at(now + 5), usage={**usage, "output_tokens": 9}),
        ]
    return log(*lines, *extra)


@pytest.fixture
def tried(tmp_path):
    def run(data, explain=None, **settings):
        path = tmp_path / "s.jsonl"
        path.write_bytes(data)
        return dry_run(str(path), Options(), Compaction(**settings), packaged(), explain=explain)

    return run


RARELY = {"continuous_interval": 1, "keep_recent": 10}  # each prunes two messages, and rewrites ten
OFTEN = {"continuous_interval": 4, "keep_recent": 2}


def test_overfull_turns_are_counted_on_both_sides(tried):
    assert tried(talk(12), **OFTEN, window=20_000).totals.overfull == (4, 0)
    small = tried(talk(12), window=1_000, keep_recent=2)
    assert small.totals.overfull == (12, 12)
    assert any("raise window" in note for note in small.notes)


def test_model_summary_has_its_price(tried):
    by = {"summarizer": "openai", "endpoint": "https://api.openai.com/v1", "model": "gpt-4.1"}
    free, paid = tried(talk(8), **OFTEN).totals, tried(talk(8), **OFTEN, **by).totals
    assert (free.summaries, free.saved) == (0, free.saved_without_summaries)
    assert paid.summaries > 0
    assert paid.saved == pytest.approx(paid.saved_without_summaries - paid.summaries, abs=2e-6)


def test_recorded_compaction_removes_added_summaries(tried):
    compaction = record("compact_applied", uuid="d", trigger="manual", preserved_uuids=[])
    more = talk(1).split(b"\n", 1)[1].replace(b'"turn":1', b'"turn":9').replace(b'u1"', b'u9"').replace(b'a1"', b'a9"')
    result = tried(talk(8, extra=[compaction]) + more, **OFTEN)
    turn = result.totals.compacted.prompt_tokens - tried(talk(8), **OFTEN).totals.compacted.prompt_tokens
    assert turn == 3_000  # as it was billed: no effect of earlier pruning is left


def late(data):
    """Return a log as Claude Code's are: the end of a turn is written after the message that begins the next."""
    lines = data.splitlines()
    for place, line in enumerate(lines[:-1]):
        if b'"turn_completed"' in line:
            lines[place], lines[place + 1] = lines[place + 1], line
    return b"\n".join(lines) + b"\n"


@pytest.mark.parametrize("settings", [OFTEN, RARELY, {**OFTEN, "gap_secs": PAUSE // 2, "continuous_interval": 3}])
def test_late_turn_end_changes_no_figure(tried, settings):
    data = talk(16, pause_after=5)
    early, delayed = tried(data, **settings), tried(late(data), **settings)
    assert (delayed.triggers, delayed.totals, delayed.answer) == (early.triggers, early.totals, early.answer)


def test_turn_is_priced_by_its_own_model(tried):
    dear = record("session_changed", model="claude-opus-4-1")
    assert tried(talk(3, extra=[dear]), **OFTEN).totals.without == tried(talk(3), **OFTEN).totals.without


def test_sources_are_neither_asked_nor_counted(tried):
    sources = {"context_sources": (ContextSource("git", ("false",)),), "context_token_cap": 500}
    without, with_sources = tried(talk(8), **OFTEN), tried(talk(8), **OFTEN, **sources)
    assert with_sources.totals == without.totals
    assert "and the up to 500 tokens that they add are not counted" in " ".join(with_sources.notes)


def test_prompts_are_at_most_99_percent_shorter(tried):
    totals = tried(talk(12), **OFTEN).totals
    long = structs.replace(totals.without, prompt_tokens=1_000 * totals.compacted.prompt_tokens)
    totals = structs.replace(totals, without=long)
    assert "99 % shorter" in trial_answer(
        TrialOutcome(Compaction(**OFTEN), [], totals, 12, is_timed=True, pause=None, refused=0)
    )


@each("change, says", [
    ({"fired": 0}, "it would have changed nothing: the recording compacts itself 2 times before that."),
    ({"saved_without_summaries": 0.0}, "no turn follows that would be cheaper before the recording compacts itself"),
    ({"saved_without_summaries": -0.5}, "do not save that much, since the recording compacts itself later."),
])  # fmt: skip
def test_answer_names_compactions_of_the_recording(tried, change, says):
    totals = structs.replace(tried(talk(12), **OFTEN).totals, recorded=2, **change)
    outcome = TrialOutcome(Compaction(**OFTEN), [], totals, 12, is_timed=True, pause=None, refused=0)
    assert says in trial_answer(outcome)


BILL = Usage(uncached_tokens=10, read_tokens=9_000, write_tokens=490, write_5m_tokens=490, output_tokens=7)


@each("change, read, write", [
    ((1_000, 5_000, 200, False), 4_200, 490),  # later messages were read, and are
    ((1_000, 5_000, 200, True), 1_000, 3_690),  # the head is read, all else written
    ((1_000, 8_450, 200, False), 1_000, 240),  # more was pruned than was read
    ((0, 0, 0, False), 9_000, 490),
    ((1_000, 0, 200, False), 9_200, 490),  # and read from the next turn on
    ((9_000, 0, 200, False), 9_000, 690),  # but not where the head alone was
    ((20_000, 5_000, 0, False), 9_000, 490),  # a head as long as the prompt: nothing can have gone
])  # fmt: skip
def test_usage_after_pruning(change, read, write):
    head, gone, added, is_rewritten = change
    bill = usage_after_pruning(BILL, head, gone, added, is_rewritten=is_rewritten)
    assert (bill.read_tokens, bill.write_tokens, bill.write_5m_tokens) == (read, write, write)
    assert (bill.uncached_tokens, bill.output_tokens) == (10, 7)
    removed = min(gone, 9_500 - min(head, 9_500))
    assert bill.read_tokens + bill.write_tokens + bill.uncached_tokens == 9_500 - removed + added
