"""`lore compare`: two sides of recordings, and what differs beyond chance."""

import json
import re

import msgspec
import pytest
from msgspec.structs import replace

from cli.running import lore, put
from cli.test_overview import FALLEN, STEADY, claude, switching
from cli.test_simulate import body, usage
from formats.codex import Rollout
from helpers.schemas import valid
from lore.model.ledger import Loss
from lore.model.results.overview import ComparedCause, Comparison, MeasureSide
from lore.report.comparison import conclusions
from lore.run.spending.ledgers import Ledgers


def compared(*args):
    result = lore("compare", *args, "--json")
    assert result.code == 0, result.err
    valid(result.json, "compare")
    return result.json


def measures(answer):
    return {measure["name"]: measure for measure in answer["measures"]}


@pytest.fixture
def two():
    for number in range(6):
        last = [(10, 12_000, 500 + 100 * number, 100)]
        claude(f"a{number}", STEADY * (number + 2) + last, day=1, path="before/{}.jsonl", version="2.1.9")
        claude(f"b{number}", FALLEN * (number + 2) + last, day=20, path="after/{}.jsonl", version="2.1.10")


def test_compare_sums_folders_as_simulate_does(two):
    answer = compared("before", "after")
    for side, folder in (("left", "before"), ("right", "after")):
        total = lore("simulate", folder, "--json").json["totals"]
        spending = answer[side]["spending"]
        assert (spending["requests"], spending["sessions"]) == (total["turns"], 6)
        assert spending["dollars"] == pytest.approx(total["cost"]["billed"], abs=1e-5)
    measured = measures(answer)
    assert measured["breaks"]["outcome"] == "higher"
    assert measured["share_read"]["outcome"] == "lower"
    assert measured["breaks"]["right"]["events"] > measured["breaks"]["left"]["events"]
    assert answer["causes"][0]["outcome"] == "higher"
    output = lore("compare", "before", "after").out
    assert "A  before  2026-01-01 · claude-code 2.1.9" in output
    assert re.search(r"requests with a cache break .* higher: \+", output)


def test_every_difference_has_a_word(two):
    few = lore("compare", "before/a1.jsonl", "after/b1.jsonl")
    assert (few.code, "too few to say" in few.out, "1 session of A and 1 of B" in few.out) == (0, True, True)


@pytest.mark.parametrize(("first", "right"), [
    ("version:<2.1.10", "version:>=2.1.10"),
    ("version:2.1.9", "version:2.1.10"),
    ("2026-01-01..2026-01-09", "2026-01-10.."),
    ("client:claude-code 2.1.9", "client:claude-code 2.1.10"),
    ("agent:claude-code,..2026-01-09", "model:claude-opus,2026-01-10.."),
])  # fmt: skip
def test_terms_select_the_requests_of_a_side(two, first, right):
    """Versions are numbers: 2.1.10 comes after 2.1.9."""
    answer = compared(first, right, "--in", "before", "--in", "after")
    folders = compared("before", "after")
    for side in ("left", "right"):
        assert {**answer[side]["spending"], "name": ""} == {**folders[side]["spending"], "name": ""}
    assert answer["measures"] == folders["measures"]


def test_agents_are_compared_where_their_logs_are():
    claude("a", STEADY)
    rollout = Rollout().meta().context().user("hello").message("assistant", "yes").count(9_000, 2_432)
    put("home/.codex/sessions/2026/01/01/rollout-1.jsonl", *rollout.lines)
    answer = compared("agent:claude-code", "agent:codex")
    assert [answer[side]["spending"]["requests"] for side in ("left", "right")] == [3, 1]
    assert {measure["outcome"] for measure in answer["measures"]} <= {"too-few", "unknown"}
    assert "are too few to say" in lore("compare", "agent:claude-code", "agent:codex").out


def test_reasons_of_another_cost_add_up(monkeypatch):
    claude("a", STEADY, day=1)
    claude("b", [(10, 60_000, 9_000, 900)] * 6, day=12, model="claude-opus-4-8", minutes=2)
    claude("c", FALLEN, day=12)
    answer = compared("2026-01-01..2026-01-07", "2026-01-08..")
    change = answer["change"]
    parts = [value for name, value in change.items() if name != "dollars"]
    both = [answer[side]["spending"]["dollars"] for side in ("left", "right")]
    assert sum(parts) == pytest.approx(both[1] - both[0], abs=1e-5) == change["dollars"]
    assert change["requests"] == pytest.approx((10 - 3) * both[0] / 3)
    monkeypatch.setattr("time.time", lambda: 1_768_500_000.0)  # 2026-01-15
    assert lore("--json", "--since", "8d", "--compare").json["change"] == change


def test_comparison_begins_with_reasons_in_dollars():
    claude("a", STEADY, day=1, path="before/{}.jsonl")
    claude("b", [(10, 60_000, 9_000, 900)] * 3, day=20, path="after/{}.jsonl", model="claude-opus-4-8")
    lines = lore("compare", "before", "after").out.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("B cost "))
    assert re.fullmatch(r"B cost \$[\d.]+ more", lines[first])
    assert re.fullmatch(r"  \+\$[\d.]+ by longer prompts \(69k tokens instead of 11k\)", lines[first + 1])
    assert re.fullmatch(r"  [+-]\$[\d.]+ by other models", lines[first + 2])
    assert lines[-1].startswith("1 session of A and 1 of B are too few to say")


def test_output_recorded_in_part_is_no_higher_output():
    claude("a", [(10, 20_000, 500, 3)] * 3, day=1, path="before/{}.jsonl", version="2.1.9")  # records a part
    claude("b", [(10, 20_000, 500, 4_000)] * 3, day=20, path="after/{}.jsonl", version="2.1.215")
    change = compared("before", "after")["change"]
    assert change["output"] == change["dollars"] == pytest.approx((3 * 4_000 - 3 * 3) * 25e-6)
    shown = lore("compare", "before", "after").out
    assert (
        "\nB cost $0.30 more, as far as recorded\n  +$0.30 by more recorded output (only a part of it in 3 A" in shown
    )


def test_few_prompts_of_a_model_give_no_rate():
    claude("a", [(10, 20_000, 500, 100)] * 40, day=1, path="before/{}.jsonl")
    claude("b", [(9_000, 0, 0, 100)], day=2, path="before/{}.jsonl", model="claude-opus-4-8")
    claude("c", [(10, 20_000, 500, 100)] * 40, day=20, path="after/{}.jsonl", model="claude-opus-4-8")
    change = compared("before", "after")["change"]
    assert abs(change["models"]) + abs(change["tokens"]) < 0.2


def test_only_more_frequent_causes_have_advice():
    side = MeasureSide(0.5, 5, 10, 2, None)
    cause = ComparedCause(
        code="LORE128", name="cache-expired", kind="expected", says="pauses", fix="/compact before", left=side,
        right=side, left_dollars=1.0, right_dollars=1.0, outcome="higher",
    )  # fmt: skip
    claude("a", STEADY, path="before/{}.jsonl")
    result = msgspec.convert(compared("before", "before"), Comparison)
    result = replace(result, causes=[cause, replace(cause, outcome="lower")])
    assert conclusions(result)[-1] == "more often in B: pauses; to do: /compact before"


def test_comparison_says_whose_output_it_compares():
    claude("a", STEADY, day=1, path="before/{}.jsonl", version="2.1.215")
    claude("b", [(10, 0, 10_000, 1_148)] * 2, day=20, path="after/{}.jsonl", version="2.1.215")
    claude("c", [(10, 0, 10_000, 100)] * 2, day=20, path="after/{}.jsonl", version="2.1.9")  # records a part
    shown = lore("compare", "before", "after").out
    assert re.search(r"\noutput tokens per request +100 +1,148\b", shown)
    assert "output tokens: of the 3 (A) and 2 (B) requests in sessions that record all output" in shown


def test_all_clients_and_models_are_counted():
    for number in range(5):
        claude(f"v{number}", STEADY, day=number + 1, path="all/{}.jsonl", version=f"2.1.{number}")
    assert "claude-code 2.1.0, claude-code 2.1.1 and 3 more" in lore("compare", "all", "all").out


def test_only_verbose_shows_counts_and_intervals(two):
    output, verbose = lore("compare", "before", "after").out, lore("compare", "before", "after", "-v").out
    assert "higher: +" in output
    assert "higher: +" in verbose
    assert " to +" not in output
    assert re.search(r"\d % \([\d,]+ of [\d,]+\).* points \(\+[\d.]+ to \+[\d.]+", verbose)


def test_compare_and_overview_show_the_same_sums():
    claude("a", FALLEN, day=1)
    claude("b", [*FALLEN, (10, 0, 14_000, 100)], day=12)
    overview = lore("--json", "--since", "2026-01-08", "--until", "2026-01-15", "--compare").json
    answer = compared("2026-01-01..2026-01-07", "2026-01-08..")
    for side, total in (("left", overview["before"]), ("right", overview["total"])):
        assert {**answer[side]["spending"], "name": ""} == {**total, "name": ""}


def test_compare_shows_each_cause_with_its_fix():
    switching()
    other = Rollout().meta()
    whole = 20_000
    for number, effort in enumerate(("high", "low", "high")):
        other.context(effort=effort).user(f"step {number}").call(f"a{number}").count(whole, 4_992)
        other.result(f"a{number}", "line " * 300).message("assistant", "done").count(whole + 400, whole - 32)
        whole += 1_000
    put("home/.codex/sessions/2026/01/01/rollout-1.jsonl", *other.lines)
    fixes = {
        right: {cause["fix"] for cause in compared("agent:claude-code", right)["causes"] if cause["code"] == "LORE120"}
        for right in ("agent:claude-code", "agent:codex")
    }
    assert fixes["agent:claude-code"] == {"update Claude Code to 2.1.38 or later"}
    assert fixes["agent:codex"] == {"update Claude Code to 2.1.38 or later", "choose them before the first message"}


def test_recording_does_not_differ_from_itself(two):
    answer = compared("after", "after")
    assert {measure["outcome"] for measure in answer["measures"]} <= {"no-difference", "too-few", "unknown"}
    assert {measure["difference"] for measure in answer["measures"]} <= {0, None}
    assert "no difference is sure to be more than chance" in lore("compare", "after", "after").out


def test_partly_recorded_output_is_not_compared(two):
    """Claude Code 2.1.9 and 2.1.10 log the count with which an answer began: answers seemed shorter, and cheaper."""
    measures = {measure["name"]: measure for measure in compared("before", "after")["measures"]}
    assert measures["output"]["left"]["value"] is None
    assert measures["prompt"]["left"]["value"] > 0
    assert measures["money"]["left"]["at_least"]
    assert measures["money"]["outcome"] not in ("higher", "lower")


def test_versions_of_several_clients_give_a_note():
    claude("a", STEADY, version="2.0.1")
    rollout = Rollout().meta().context().user("hello").message("assistant", "yes").count(9_000, 2_432)
    put("home/.codex/sessions/2026/01/01/rollout-1.jsonl", *rollout.lines)
    assert "takes versions of claude-code, codex" in lore("compare", "version:<2.1", "version:<2.1").out


@pytest.mark.parametrize(("args", "hint"), [
    (["nowhere", "agent:pi"], "a side is a path, KEY:VALUE"),
    (["agnt:pi", "agent:pi"], "did you mean 'agent'?"),
    (["agent:pj", "agent:pi"], "did you mean 'pi'?"),
    (["version:new", "agent:pi"], "version:>=2.1.215"),
    (["1d..7d", "agent:pi"], "the older end comes first"),
    (["1d..soon", "agent:pi"], "give an age"),
    (["", "agent:pi"], "a side is a path"),
    (["agent:claude-code", "model:gpt"], "claude-opus-4-5"),
    (["agent:pi", "agent:codex"], "lore sessions lists the recordings"),
])  # fmt: skip
def test_compare_rejects_meaningless_sides(args, hint):
    claude("a", STEADY)
    result = lore("compare", *args)
    assert result.code == 2
    assert hint in result.err


def test_redacted_comparison_hides_private_names():
    claude("a", FALLEN, path="before/{}.jsonl", model="claude-secret-canary of mine", version="2.1.9-canary words")
    claude("b", STEADY, path="after/{}.jsonl")
    put("after/canary.jsonl", b"words")
    for how in ((), ("--json",)):
        assert "canary of mine" in lore("compare", "before", "after", *how).out
        result = lore("compare", "before", "after", "--redact", *how)
        assert (result.code, "canary of mine" in result.out, "canary words" in result.out) == (0, False, False)
    assert compared("before", "after", "--redact")["measures"] == compared("before", "after")["measures"]
    refused = lore("compare", "before", "model:gpt", "--in", "before", "--redact")
    assert refused.code == 2
    assert "canary of mine" not in refused.err


def dated_bodies(path, billed):
    """Write requests whose system prompt has the time, so that each breaks the prefix; `billed`: which have usage."""
    lines = []
    for number, has_usage in enumerate(billed):
        messages = [{"role": "user", "content": f"question {index}: {'long ' * 400}"} for index in range(number + 1)]
        system = f"You maintain a library. The time is 2026-11-20T08:0{number}:00Z. {'Read before you write. ' * 300}"
        usage = {"input_tokens": 5, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 2_000 + 500 * number,
                 "output_tokens": 9}  # fmt: skip
        request = {"model": "claude-opus-4-5", "max_tokens": 64, "system": system, "messages": messages}
        line = {"timestamp": f"2026-11-20T08:0{number}:00Z", "request": request}
        lines.append(line | {"usage": usage} if has_usage else line)
    return put(path, *lines)


@pytest.mark.parametrize("billed", [(1, 0, 0, 0), (1, 1, 0, 0), (1, 1, 0, 1), (0, 0, 0), (1, 1, 1, 1)])
def test_shares_count_breaks_with_usage_only(billed):
    dated_bodies("a.jsonl", billed)
    answer = compared("a.jsonl", "a.jsonl")
    assert answer["left"]["spending"]["breaks"] >= max(1, sum(billed[1:]))
    count, broken = sum(billed), sum(billed[1:])
    shares = [measures(answer)["breaks"], *answer["causes"]]
    assert [(share["left"]["events"], share["left"]["trials"]) for share in shares] == [(broken, count)] * len(shares)
    assert [cause["name"] for cause in answer["causes"]] == ["date-in-prefix"]
    assert {share["outcome"] for share in shares} <= {"too-few", "unknown"}


def test_compare_of_bodies_tells_author_the_fix():
    """The author of a capture's client was told to "list MCP servers in one fixed order", as a user is."""
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("find", "send")]
    for path, lists in (("steady.jsonl", (tools, tools)), ("shuffled.jsonl", (tools, tools[::-1]))):
        turns = ("one",), ("one", "1", "two")
        bodies = [body(*texts, tools=order) for texts, order in zip(turns, lists, strict=True)]
        usages = usage(0, 5000), usage(5000, 100) if lists[0] is lists[1] else usage(0, 5100)
        lines = [
            json.dumps({"request": request_body, "usage": bill, "timestamp": 1_780_000_000 + 60 * number})
            for number, (request_body, bill) in enumerate(zip(bodies, usages, strict=True))
        ]
        put(path, "\n".join(lines).encode())
    (cause,) = compared("steady.jsonl", "shuffled.jsonl")["causes"]
    assert (cause["code"], cause["fix"]) == ("LORE102", "sort tools by name when they are registered")


def test_each_kind_of_a_cause_is_a_row(monkeypatch):
    claude("a", FALLEN)
    losses = [Loss("LORE117", kind, 500, (), None) for kind in ("waste", "unattributable", "expected")]
    make_ledger = Ledgers.make

    def with_losses(ledgers, file):
        ledger = make_ledger(ledgers, file)
        rows = [replace(row, loss=loss) for row, loss in zip(ledger.rows, [None, *losses], strict=True)]
        return replace(ledger, rows=tuple(rows))

    monkeypatch.setattr(Ledgers, "make", with_losses)
    answer = compared("agent:claude-code", "agent:claude-code", "--no-cache")
    overview = lore("--since", "2020-01-01", "--no-cache", "--json").json
    causes = {(cause["kind"], cause["says"], cause["left"]["events"]) for cause in answer["causes"]}
    every = overview["causes"] + overview["unexplained"]
    assert causes == {(cause["kind"], cause["says"], cause["turns"]) for cause in every}
    assert len(causes) == 3


def test_unreadable_side_is_an_error_with_its_reason():
    put("good.jsonl", {"request": body("a"), "usage": usage(1, 0)})
    put("empty.jsonl", b"")
    result = lore("compare", "good.jsonl", "empty.jsonl", "--no-cache")
    assert (result.code, "error: empty.jsonl is empty" in result.err) == (2, True)
