"""Law 11, sums: `check`, `simulate`, `lore`, `compare`, `sessions`, `statusline` and the page count the same.

Each break counts once, by its leading cause, and expected breaks are in no sum of waste.
"""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from conftest import CORPUS, recordings
from judge.pi_sessions import session
from laws.law_11 import LOOK_ALIKE, OWN, listed, reader_of, short
from lore.commands.compare import SelectedSide, compare
from lore.commands.pages import read_session
from lore.commands.spending import list_sessions
from lore.commands.statusline import judge_running
from lore.judge.sums import is_part, rebilled_dollars, rebilled_tokens
from lore.model.results.simulate import SimulateResult
from lore.recording.agents.logs import Surroundings
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.run.checking.verdicts import CheckContext
from lore.run.rules import PACKAGED
from lore.run.simulation import simulate
from lore.run.spending.ledgers import Ledgers
from lore.run.spending.overview import OverviewRequest, sum_spending
from model.making import dumps

CENT = 0.005


def surroundings_of(home: Path) -> Surroundings:
    return Surroundings({}, str(home), "linux", str(home))


def assert_same_money(*dollars: float | None) -> None:
    """Assert equal amounts; one that is not known is one of nothing."""
    assert max(amount or 0.0 for amount in dollars) - min(amount or 0.0 for amount in dollars) < CENT


def assert_rows_add_up(path: str, simulated: SimulateResult) -> None:
    """Assert that rows of ledgers split what `simulate` counts, each request once."""
    ledgers = [Ledgers(Options()).make(file) for file in inputs([path])]
    every = [row for ledger in ledgers if ledger is not None for row in ledger.rows]
    billed = simulated.totals.cost.billed
    assert len(every) >= simulated.totals.turns
    if len(every) != simulated.totals.turns:  # a file that holds a response twice: simulate counts it once
        return
    if billed is not None:
        assert sum(row.spent.total for row in every if row.spent) == pytest.approx(billed, abs=1e-5)
    for row, turn in zip(every, simulated.turns, strict=True):
        if row.spent is not None:
            spent = row.spent
            assert min(spent.reading, spent.context, spent.output, spent.tools, spent.again) >= -1e-9
            if row.loss is not None and row.loss.kind == "waste":
                assert spent.again <= (turn.cost.waste or 0.0) + 1e-6


def assert_same_sums(path: str, home: Path) -> None:
    checked = check([path]).result
    summary, causes = checked.summary, Counter(finding.code for finding in checked.findings if finding.is_break)
    assert summary.breaks == summary.waste + summary.unattributable + summary.expected <= causes.total()
    if not summary.turns:
        return
    assert summary.lost_tokens == summary.waste_tokens + summary.unexplained_tokens
    (simulated,) = simulate([path], CheckContext())
    played = simulated.totals
    assert (summary.waste_tokens, summary.unexplained_tokens) == (played.waste_tokens, played.unexplained_tokens)
    assert_same_money(summary.waste_dollars, played.cost.waste)
    assert_same_money(summary.unexplained_dollars, played.cost.unexplained)
    assert_rows_add_up(path, simulated)
    overview = sum_spending(
        surroundings_of(home), OverviewRequest(None, 2e9, paths=(path,)), Ledgers(Options())
    ).result.total
    side = SelectedSide(path, path)
    compared = compare(surroundings_of(home), side, side, Ledgers(Options())).left.spending
    pages = [read_session(file, CheckContext()) for file in inputs([path])]
    for spending in (overview, compared, *(page[0].spending for page in pages if page is not None and len(pages) == 1)):
        assert spending.breaks == summary.breaks
        assert spending.paid_again_tokens == summary.waste_tokens
        assert spending.unexplained_tokens == summary.unexplained_tokens
        assert_same_money(spending.paid_again, summary.waste_dollars)
        assert_same_money(spending.unexplained, summary.unexplained_dollars)
        assert spending.expected_tokens == summary.expected_tokens
        assert_same_money(spending.expected, summary.expected_dollars)
        assert bool(played.cost.at_least) == (spending.dollars is not None and is_part(spending))
    if len(pages) == 1 and not overview.subagent_requests:  # a status line leaves out files of subagents
        running = judge_running(path, Options(), PACKAGED).running
        assert (running.requests, running.breaks) == (overview.requests, overview.breaks)
        assert running.rebilled_tokens == rebilled_tokens(overview)
        assert_same_money(running.rebilled_dollars, rebilled_dollars(overview))
    expected = [turn.lost_tokens or 0 for turn in simulated.turns if turn.cause and turn.cause.kind == "expected"]
    assert overview.expected_tokens == sum(expected)
    if path.endswith(".jsonl"):
        logs = home / ".claude" / "projects" / "-app"
        logs.mkdir(parents=True)
        shutil.copy(path, logs / "log.jsonl")
        (row,) = list_sessions(surroundings_of(home), Ledgers(Options())).sessions
        if row.read_tokens is not None:  # else no usage is recorded
            assert (row.paid_again_tokens, row.unexplained_tokens) == (summary.waste_tokens, summary.unexplained_tokens)
        assert_same_money(row.paid_again_dollars, summary.waste_dollars)


def test_plateau_tokens_are_never_rebilled(tmp_path):
    whole = [5_900 + 1_800 * number for number in range(6)]
    bills = [(whole[0], 0), *((tokens - 4_867, 4_867) for tokens in whole[1:])]
    path = session(tmp_path / "plateau.jsonl", *bills)
    (finding,) = check([path]).result.findings
    assert (finding.code, finding.is_break, bool(finding.lost_tokens)) == ("LORE307", False, True)
    assert_same_sums(path, tmp_path)
    total = sum_spending(
        surroundings_of(tmp_path), OverviewRequest(None, 2e9, paths=(path,)), Ledgers(Options())
    ).result.total
    assert (total.paid_again_tokens, total.unexplained_tokens, total.expected_tokens) == (0, 0, 0)


def test_snapshots_of_a_session_count_once(tmp_path):
    """`check` counted a plateau in each snapshot, `simulate` in the first alone."""
    whole = [5_900 + 1_800 * number for number in range(9)]
    bills = [(whole[0], 0), *((tokens - 4_867, 4_867) for tokens in whole[1:])]
    folder = tmp_path / "snapshots"
    folder.mkdir()
    for name, turns in (("a", 6), ("b", 9)):
        path = folder / f"{name}.jsonl"
        session(path, *bills[:turns])
        for number in range(turns):  # answers have ids that both snapshots share
            old = b'"role":"assistant"'
            path.write_bytes(path.read_bytes().replace(old, b'"responseId":"r%d","role":"assistan_"' % number, 1))
        end = b"\n" if name == "a" else b""  # so that `b` does not begin with all of `a`, which would be left out
        path.write_bytes(path.read_bytes().replace(b"assistan_", b"assistant") + end)
    checked = check([str(folder)]).result
    (simulated,) = simulate([str(folder)], CheckContext())
    missed = [cause for turn in simulated.turns for cause in turn.causes if cause.lost_tokens and not cause.is_break]
    assert [finding.code for finding in checked.findings] == [cause.code for cause in missed] == ["LORE307"]
    assert checked.summary.missed_tokens == sum(cause.lost_tokens or 0 for cause in missed)
    assert (checked.summary.turns, checked.summary.copied) == (len(simulated.turns), 6)
    assert_same_sums(str(folder), tmp_path)


def test_finding_about_a_shared_first_request_counts_once(tmp_path):
    messages = [{"role": "system", "content": "Work step by step. " * 900}, {"role": "user", "content": "Begin."}]
    calls = []
    for number in range(3):
        usage = {"prompt_tokens": 4_000 + number, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}}
        answer = {"role": "assistant", "content": f"Step {number}."}
        response = {"id": f"chatcmpl-{number}", "choices": [{"message": answer}], "usage": usage}
        calls.append({"request": {"model": "gpt-4.1", "messages": list(messages)}, "response": response, "ts": number})
        messages += [answer, {"role": "user", "content": "Go on."}]
    for name, size in (("a", 2), ("b", 3)):
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(dumps(call) + b"\n" for call in calls[:size]))
    checked = check([str(tmp_path)]).result
    (simulated,) = simulate([str(tmp_path)], CheckContext())
    causes = [cause.code for turn in simulated.turns for cause in turn.causes]
    assert causes.count("LORE185") == 1
    assert Counter(finding.code for finding in checked.findings) == Counter(causes)


RECORDED = [path for path in OWN if Path(path).is_file() and reader_of(path) not in (None, "measured")]


@pytest.mark.parametrize("path", [
    pytest.param(path, id=short(path), marks=[pytest.mark.soak] if path.endswith(LOOK_ALIKE) or at % 3 else [])
    for at, path in enumerate(RECORDED)
])  # fmt: skip
def test_commands_sum_the_same(path, tmp_path):
    assert_same_sums(path, tmp_path)


@pytest.mark.parametrize("path", recordings(map(Path, filter(lambda path: Path(path).is_file(), listed(CORPUS)))))
def test_commands_sum_the_same_on_real_recordings(path, tmp_path):
    assert_same_sums(str(path), tmp_path)
