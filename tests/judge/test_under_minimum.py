"""LORE306: breakpoints in prompts that are too short to be cached."""

from msgspec.structs import replace

from helpers.each import each
from judge.captures import SYSTEM as LONG
from judge.captures import asks, call, judged, text, usage
from judge.foretelling import PLACE, answered_turn, bill, body, chain_codes, chain_findings
from lore.judge.requests.lint import Linter
from lore.model.differences import BelowMinimum
from lore.run.rules import PACKAGED, Dated

TEXTS = ("one", "1", "two", "2", "three")
SHORT = {"system": "Be brief. " * 20, "model": "claude-opus-4-6"}


def talk(*bills, **fields):
    fields = {**SHORT, **fields}
    return [answered_turn(60 * n, body(*TEXTS[: 2 * n + 1], **fields), usage) for n, usage in enumerate(bills)]


def test_usage_shows_how_short_a_prompt_is():
    (finding,) = chain_findings(talk(bill(0, 0, 900), bill(0, 0, 950)))
    assert (finding.code, finding.kind, finding.turn) == ("LORE306", "unattributable", 1)
    assert finding.evidence == BelowMinimum(900, 4096, "claude-opus-4-6", counted=True, turns=2)
    message = finding.message
    assert "the prompt has 900 tokens; claude-opus-4-6 caches at least 4,096" in message
    assert message.endswith("(all 2 requests with breakpoints of this chain)")


def test_prompt_that_the_provider_compacted_is_not_short():
    passes = (replace(bill(0, 5000), kind="compaction"), replace(bill(0, 0, 900), kind="message"))
    assert chain_codes(talk(replace(bill(0, 0, 900), iterations=passes))) == []


def test_short_prompt_without_usage_is_estimated():
    assert chain_codes(talk(None, None)) == ["LORE306"]
    assert chain_codes(talk(None, None, system="word " * 2400)) == []  # 3,000 tokens of 4,096: not surely too few


@each([
    talk(bill(0, 0, 900), bill(0, 5000)),  # it grew past the minimum
    talk(bill(0, 0, 900), bill(0, 0, 5000)),
    talk(bill(0, 0, 900), bill(0, 0, 950), head=None, breakpoint=None),  # no breakpoints
    talk(bill(0, 0, 900), bill(0, 0, 950), model="claude-opus-5"),  # 512
    talk(bill(0, 0, 900), bill(0, 0, 950), model="claude-haiku-5-5"),  # unknown minimum
    talk(bill(None, None, 900), bill(None, None, 950)),  # the cached tokens are not recorded
    [replace(turn, sent=0.0, answered=None) for turn in talk(bill(0, 0, 900), bill(0, 0, 950))],  # 1970: no row
    talk(None, None, tools=[{"type": "web_search_20250305", "name": "web_search"}]),
])  # fmt: skip
def test_long_or_unknown_prompt_is_no_finding(turns):
    assert chain_codes(turns) == []


def test_single_requests_are_reported_once_a_recording():
    calls = [answered_turn(60 * n, body(f"case {n}", **SHORT), bill(0, 0, 900), f"c-{n}") for n in range(4)]
    assert chain_codes(calls) == ["LORE306"]
    assert chain_codes(calls[:1]) == ["LORE306"]


def test_unmarked_prompt_below_minimum_lacks_no_breakpoint():
    """Usage shows 3,850 tokens, and the model caches from 4,096 on; an estimate alone might be too low."""
    request = body("word " * 3_000, **SHORT, breakpoint=None, head=None)
    codes = [
        [defect.code for defect in Linter(PACKAGED.rules).defects(answered_turn(0, request, usage))]
        for usage in (bill(0, 0, 3_850), None)
    ]  # fmt: skip
    assert codes == [["LORE306"], ["LORE114"]]


def test_usage_of_a_mock_makes_no_prompt_short(tmp_path):
    days = [asks(text("user", "Go on."), system=f"Today is 2026-11-{day}. {LONG}") for day in (20, 21)]
    (_, late), findings = judged(
        tmp_path, *(call(20 * n, request_body, usage(0, 0)) for n, request_body in enumerate(days))
    )
    assert (late.leading.code, late.leading.kind) == ("LORE101", "waste")
    assert late.lost_tokens > 5_000
    assert "LORE306" not in [finding.code for finding in findings]


@each("wrote, codes", [(0, ["LORE114"]), (None, [])])
def test_normalised_log_shows_missing_breakpoints_by_usage(wrote, codes):
    texts, sizes = ("Read it. " * 900, "1", "two", "2", "three"), (2_000, 2_100, 2_200)
    asked = [body(*texts[: 2 * n + 1], head=None, breakpoint=None, model="claude-sonnet-4-5") for n in range(3)]
    turns = [answered_turn(60 * n, asked[n], replace(bill(0, 0, sizes[n]), write_tokens=wrote)) for n in range(3)]
    judge = Dated().judge()
    for turn in turns:
        judge.turn(replace(turn, source=replace(turn.prompt, fidelity="structural")))
    assert [finding.code for finding in judge.finish(PLACE)] == codes


def test_short_prompt_of_earlier_day_cannot_expire(tmp_path):
    requests = (asks(text("user", "Go."), system=f"Today is 2026-11-{day}.", model=SHORT["model"]) for day in (20, 22))
    verdicts, _ = judged(tmp_path, *(call(172_800 * n, request, None) for n, request in enumerate(requests)))
    assert [cause.code for cause in verdicts[1].causes] == ["LORE101"]
