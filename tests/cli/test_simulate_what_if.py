"""`lore simulate --what-if`: the same turns, the same evidence, the one thing changed."""

import io
import json
import re
from pathlib import Path

import pytest
from msgspec import convert
from msgspec.structs import replace

from cli.running import lore, put
from cli.test_simulate import CACHE_CONTROL, LONG, body, capture, stable, usage
from formats.claude import answered, asked, log_bytes, text
from formats.codex import Rollout
from formats.opencode import Export
from lore.model.codes import fix_of
from lore.model.results.simulate import SimulateResult
from lore.report.console import Console
from lore.report.simulation import write_simulated

TOOLS = [{"name": name, "description": name * 9, "input_schema": {"type": "object"}} for name in ("a", "b")]


def log(*turns, name="log.jsonl", model="claude-opus-4-6") -> str:
    """Write (minute, read, write, lives an hour) as a transcript."""
    lines = []
    for number, (minute, read, write, hour) in enumerate(turns):
        clock = f"2026-05-01T{minute // 60:02}:{minute % 60:02}:00Z"
        lives = {"ephemeral_1h_input_tokens": write if hour else 0, "ephemeral_5m_input_tokens": 0 if hour else write}
        bill = {**usage(read, write), "cache_creation": lives}
        lines.append(asked(f"u{number}", f"question {number}", f"a{number - 1}" if number else None, timestamp=clock))
        answer = answered(f"a{number}", f"m{number}", text("well"), f"u{number}", usage=bill, model=model)
        lines.append({**answer, "timestamp": clock})
    put(name, log_bytes(*lines))
    return name


def what_if(path: str, *changes: str):
    """Return the savings by change, and the notes."""
    args = [word for change in changes for word in ("--what-if", change)] or ["--what-if"]
    result = lore("simulate", path, *args, "--json").json
    return {row["change"]: row for row in result["what_if"]}, result["notes"]


def talk(*, hour: bool, pause: int) -> str:
    """A transcript with a pause of some minutes, after which all was written again."""
    return log(
        (0, 0, 20_000, hour), (1, 20_000, 500, hour), (2, 20_500, 500, hour), (3 + pause, 0, 21_500, hour),
        (4 + pause, 21_500, 500, hour), (5 + pause, 22_000, 500, hour),
    )  # fmt: skip


@pytest.mark.parametrize("pause", [1, 30, 90])
def test_what_if_current_hour_saves_nothing(pause):
    """$16.89 was claimed for a session whose every write lives an hour: the changed run dropped evidence."""
    saved, notes = what_if(talk(hour=True, pause=pause), "ttl=1h")
    assert (saved["ttl=1h"]["turns"], saved["ttl=1h"]["tokens"], saved["ttl=1h"]["saved"]) == (0, 0, 0.0)
    assert "ttl=1h equals the recording: every write of these turns lives an hour" in notes


def test_what_if_current_state_saves_nothing_without_price():
    """Two plays without a price say nothing of money: what changes nothing costs nothing all the same."""
    path = log((0, 0, 20_000, True), (1, 20_000, 500, True), model="claude-unheard-of")
    saved, notes = what_if(path, "ttl=1h")
    assert (saved["ttl=1h"]["turns"], saved["ttl=1h"]["tokens"], saved["ttl=1h"]["saved"]) == (0, 0, 0.0)
    assert notes.count("ttl=1h equals the recording: every write of these turns lives an hour") == 1


def test_what_if_hour_saves_half_hour_pause():
    saved, notes = what_if(talk(hour=False, pause=30), "ttl=1h")
    assert saved["ttl=1h"]["tokens"] == 21_000
    assert not [note for note in notes if "already" in note]


def test_what_if_lifetime_says_how_to_ask_for_it():
    path = talk(hour=False, pause=30)
    assert what_if(path, "ttl=1h")[0]["ttl=1h"]["fix"] == ""  # no record names the client
    lines = [json.loads(line) | {"version": "2.1.150"} for line in Path(path).read_text().splitlines()]
    put(path, log_bytes(*lines))
    assert "ENABLE_PROMPT_CACHING_1H=1" in what_if(path, "ttl=1h")[0]["ttl=1h"]["fix"]
    rollout = Rollout().meta().context().user("hello").message("assistant", "yes").count(9_000, 2_432)
    put("rollout-1.jsonl", *rollout.lines)  # of an agent whose turns the change leaves as they are
    text = lore("simulate", path, "rollout-1.jsonl", "--what-if").out
    assert 'fix: Set "promptCacheTtl": "1h" in settings.json' in text.replace("\n     ", "")


def test_what_if_hour_prices_all_recorded_writes():
    """Savings were those of predicted writes: $2.35 for a session whose usage said $10.61."""
    saved, _ = what_if(talk(hour=False, pause=30), "ttl=1h")
    written, again = 22_500, 21_000  # first and by new messages, and after the pause
    now, then = (written + again) * 6.25, written * 10 + again * 0.5
    assert saved["ttl=1h"]["saved"] == pytest.approx((now - then) / 1e6, abs=0.0001)


def test_what_if_short_lifetime_loses_nothing_twice():
    """Turns that had lost everything for another reason lost it again in the simulation of five minutes."""
    path = log((0, 0, 20_000, True), (1, 20_000, 500, True), (20, 0, 21_000, True), (21, 21_000, 500, True))
    saved, _ = what_if(path, "ttl=5m")
    assert (saved["ttl=5m"]["turns"], saved["ttl=5m"]["tokens"]) == (0, 0)
    assert saved["ttl=5m"]["saved"] == pytest.approx(42_000 * 3.75 / 1e6, abs=0.0001)


def test_what_if_hour_changes_only_five_minute_entries():
    path = log((0, 0, 20_000, True), (1, 20_000, 500, True), (2, 20_500, 500, False), (32, 20_500, 1000, True),
               (62, 21_500, 500, True))  # fmt: skip
    saved, notes = what_if(path, "ttl=1h")
    assert "ttl=1h equals the recording in 3 of 5 turns, which stay as they are" in notes
    assert (saved["ttl=1h"]["turns"], saved["ttl=1h"]["tokens"]) == (1, 500)


@pytest.mark.parametrize("change", ["breakpoints=auto", "model=claude-opus-4-6-20260205", "ttl=5m"])
def test_what_if_existing_setting_saves_nothing(change):
    """A dated name of the same model is the same model; breakpoints at the end of each section are automatic ones."""
    saved, notes = what_if(stable(), change)
    assert (saved[change]["tokens"], saved[change]["saved"]) == (0, 0.0)
    assert any(note.startswith(f"{change} equals the recording") for note in notes)


def moved(*, gap: int = 60, billed: bool = True) -> str:
    """Two requests whose tools come in another order."""
    return capture(
        (body("one", tools=TOOLS), usage(0, 5000) if billed else None, 0),
        (body("one", "1", "two", tools=TOOLS[::-1]), usage(0, 5100) if billed else None, gap),
    )


def test_change_during_expiry_is_noted():
    """The tools changed during the pause: both are reported."""
    (late,) = [row for row in lore("simulate", moved(gap=400), "--json").json["turns"] if row["causes"]]
    assert late["causes"][0]["code"] == "LORE128"
    assert "LORE102" in [row["code"] for row in late["causes"][0]["also"]]
    assert "also seen: tools-reordered: " in late["causes"][0]["message"]


def test_what_if_cause_leaves_out_losses_that_are_notes():
    a, b, c = *TOOLS, {**TOOLS[0], "name": "c"}
    path = capture(
        (body("one", tools=[a, b, c]), usage(0, 5000), 0),
        (body("one", "1", "two", tools=[c, a, b]), usage(0, 5100), 60),
        (body("one", "1", "two", "2", "three", tools=[b, c, a]), usage(4980, 120), 120),
    )
    saved, notes = what_if(path, "cause=LORE102")
    (ranked, _), waste = what_if(path), lore("check", path, "--json").json["summary"]["waste_tokens"]
    assert saved["cause=LORE102"]["tokens"] == ranked["cause=LORE102"]["tokens"] == waste == 5000
    assert "cause=LORE102 is without 1 turn that lost hardly anything" in notes


def test_what_if_cause_without_turn_is_noted():
    saved, notes = what_if(stable(), "cause=LORE102")
    assert saved["cause=LORE102"]["saved"] == 0.0
    assert "cause=LORE102: no turn has this cause" in notes


def test_bare_what_if_ranks_all_fixes():
    """Of a session that lost most to pauses only the fix of its smallest cause was ranked."""
    path = capture(
        (body("one", tools=TOOLS), usage(0, 5000), 0),
        (body("one", "1", "two", tools=TOOLS[::-1]), usage(0, 5100), 60),
        (body("one", "1", "two", "2", "three", tools=TOOLS[::-1]), usage(0, 5200), 1000),
        (body("one", "1", "two", "2", "three", "3", "four", tools=TOOLS[::-1]), usage(5200, 90), 1010),
    )
    saved, _ = what_if(path)
    assert list(saved) == ["cause=LORE102", "breakpoints=auto", "ttl=1h"]  # which costs more than it saves
    assert saved["ttl=1h"]["tokens"] > 4000 > 0 > saved["ttl=1h"]["saved"]


def test_bare_what_if_tries_short_life_of_hour_writes():
    path = talk(hour=True, pause=1)
    saved, _ = what_if(path)
    assert saved["ttl=5m"]["tokens"] == 0 < saved["ttl=5m"]["saved"]
    output = lore("simulate", path, "--what-if").out
    assert re.search(r"ttl=5m: saves \$[\d.]+, [\d.]+ % \(a 5-minute write costs", output), output
    assert "ttl=1h" not in output


def test_causes_are_grouped_by_their_kind():
    path = capture((body("one"), usage(0, 5000), 0), (body("one", "1", "two"), usage(0, 5100), 1000))
    result = lore("simulate", path)
    (group,) = [group for group in lore("simulate", path, "--json").json["groups"] if group["by"] == "cause"]
    assert group["kind"] == "expected"
    assert group["rebilled"] > 0
    rebilled = r"[\d,]+ tokens re-billed \(\$[\d.]+\) in 1 turn that cost"
    assert re.search(rf"LORE128 cache-expired \(expected\): {rebilled}", result.out)


def test_without_what_if_files_are_read_once():
    """The cheap answer: causes alone, and a word on what a second look would say."""
    path = capture((body("one"), usage(0, 5000), 0), (body("one", "1", "two"), usage(0, 5100), 1000))
    result = lore("simulate", path, "--json").json
    assert result["what_if"] == []
    assert any("--what-if ttl=1h says" in note for note in result["notes"])


def test_loss_without_cause_has_no_fix():
    path = log((0, 0, 20_000, True), (1, 20_000, 500, True), (2, 9_000, 12_000, True), (3, 21_000, 500, True))
    saved, notes = what_if(path)
    assert list(saved) == ["ttl=5m"]
    result = lore("simulate", path, "--json").json
    assert [turn["unexplained_tokens"] for turn in result["turns"]] == [0, 0, 11_500, 0]
    assert (result["totals"]["unexplained_tokens"], result["totals"]["waste_tokens"]) == (11_500, 0)
    assert "not simulated: 11,500 tokens in 1 turn with no certain cause (LORE301)" in notes
    assert not any("breakpoints=auto" in note for note in notes)
    out = lore("simulate", path).out
    assert "re-billed, no certain cause: 11,500 tokens ($" in out
    assert "\n      ruled out: expiry" in out
    assert "largest savings" not in out
    savings, notes = what_if(path, "cause=LORE301")
    assert (savings["cause=LORE301"]["tokens"], "cannot be removed" in "".join(notes)) == (0, True)


# The clock goes back at the second fall, so nothing is known of expiry there.
def test_sums_list_what_every_break_rules_out():
    path = log(
        (0, 0, 20_000, True), (1, 20_000, 500, True), (2, 9_000, 12_000, True), (3, 21_000, 500, True),
        (2, 9_000, 13_000, True),
    )  # fmt: skip
    for command in ("check", "simulate"):
        (sums,) = [
            line for line in lore(command, path).out.splitlines() if line.startswith("re-billed, no certain cause")
        ]
        assert sums.partition("; ruled out in each: ")[2] == (
            "model, compaction, cleared results, rewind, blocks since the last breakpoint, "
            "a change of the client that the log notes"
        )


def test_weak_cause_has_no_fix():
    """A slash command may have lost the prefix, or may not."""
    path = log((0, 0, 20_000, True), (1, 20_000, 500, True), (2, 20_500, 500, True), (3, 9_000, 12_500, True))
    command = b"<command-name>/review</command-name>"
    Path(path).write_bytes(Path(path).read_bytes().replace(b"question 3", command))
    turns = lore("simulate", path, "--json").json["turns"]
    assert [cause["code"] for turn in turns for cause in turn["causes"]] == ["LORE162"]
    saved, notes = what_if(path)
    assert "cause=LORE162" not in saved
    assert "not simulated: 1 turn with only a possible cause (LORE162 slash-command)" in notes
    assert any(note.startswith("no saving found") for note in notes) is (not saved)
    assert "would have saved most" not in lore("simulate", path).out
    savings, notes = what_if(path, "cause=LORE162")
    assert savings["cause=LORE162"]["tokens"] == 12_000
    assert any("the evidence for it is weak" in note for note in notes)


def test_fix_addresses_its_audience():
    """A transcript gets fixes for the user, a capture those for the author."""
    code = "cause=LORE128"
    assert what_if(talk(hour=False, pause=30), code)[0][code]["fix"] == fix_of("LORE128", "user")
    path = capture((body("one"), usage(0, 5000), 0), (body("one", "1", "two"), usage(0, 5100), 1000))
    assert what_if(path, code)[0][code]["fix"] == fix_of("LORE128", "author")


def fixes_of(path: str, *args: str) -> list[set[str]]:
    """The fixes that commands give for one recording, and those that are ranked; `lore check` has no --for."""
    checked = [] if args else [lore("check", path, "-v", "--json").json["findings"]]
    pairs = [json.loads(line) for line in lore("diff-prefix", path, "--json", *args).out.splitlines()]
    result = lore("simulate", path, "--json", *args).json
    causes = (
        [item for pair in pairs for item in pair["causes"]],
        [item for turn in result["turns"] for item in turn["causes"]],
    )
    return [{item["fix"] for item in group} for group in (*checked, *causes, result["what_if"])]


@pytest.mark.parametrize("reader", ["author", "user"])
@pytest.mark.parametrize("configured", [True, False])
def test_commands_give_same_fixes(reader, configured):
    """Fixes follow `--for` and `[check] reader` in every command."""
    if configured:
        put("lore.toml", f'[check]\nreader = "{reader}"\n'.encode())
    fixes = fixes_of(moved(), *(() if configured else ("--for", reader)))
    assert fixes == [{fix_of("LORE102", reader)}] * len(fixes)


def test_what_if_cause_expiry_removes_pause():
    """Tokens of an expected cause were written again, so removing the pause saves their cost."""
    saved, notes = what_if(talk(hour=False, pause=30), "cause=LORE128")
    assert saved["cause=LORE128"]["tokens"] == 21_000
    assert saved["cause=LORE128"]["saved"] == pytest.approx(21_000 * (6.25 - 0.5) / 1e6)
    assert any("simulated with the recorded prompts" in note for note in notes)


def test_standard_input_names_changes_not_simulated():
    """Standard input is read once: changes that need a second pass are named in a note."""
    path = capture((body("one"), usage(0, 5000), 0), (body("one", "1", "two"), usage(0, 5100), 1000))
    result = lore("simulate", "-", "--what-if", "--json", stdin=Path(path).read_bytes())
    notes = "".join(result.json["notes"])
    assert "not simulated: ttl=1h, since standard input and pipes can be read once only" in notes


def unmarked(*bills: dict[str, int]) -> str:
    """A capture of requests that continue and set no breakpoint."""
    words = ["one", "1", "two", "2", "three", "3"]
    turns = []
    for number, bill in enumerate(bills):
        whole = body(*words[: 2 * number + 1])
        for block in (whole["system"][0], whole["messages"][-1]["content"][0]):
            del block["cache_control"]
        turns.append((whole, bill, 60 * number))
    return capture(*turns)


def test_bodies_without_breakpoint_get_breakpoint_saving():
    """Also requests without any breakpoint get the saving of automatic ones."""
    saved, _ = what_if(unmarked(usage(0, 0, 5010), usage(0, 0, 5020), usage(0, 0, 5030)))
    assert (saved["breakpoints=auto"]["turns"], saved["breakpoints=auto"]["tokens"] > 7000) == (2, True)
    assert saved["breakpoints=auto"]["saved"] > 0


@pytest.mark.parametrize("changes", [(), ("breakpoints=auto",)])
def test_usage_contradicting_bodies_saves_nothing(changes):
    """Bodies without breakpoints whose bills were cached: $0.0861 was said to be saved of $0.0346 that were paid."""
    saved, notes = what_if(unmarked(usage(0, 4000, 10), usage(4000, 10, 10), usage(4010, 10, 10)), *changes)
    assert not [row for row in saved.values() if row["tokens"] or row["saved"]]
    assert "not simulated: breakpoints=auto in 3 turns whose bills contradict their bodies (LORE303)" in notes


def both(*more) -> str:
    """Two requests whose system prompt and tools changed at once."""
    return capture(
        (body("one", system=f"Today is 2026-09-01. {LONG}", tools=TOOLS), usage(0, 5000), 0),
        (body("one", "1", "two", system=f"Today is 2026-09-02. {LONG}", tools=TOOLS[:1]), usage(0, 5100), 60), *more,
    )  # fmt: skip


@pytest.mark.parametrize("changes", [(), ("cause=LORE101,LORE103",)])
def test_causes_saving_only_together_are_ranked_together(changes):
    """A date and a tool changed in one turn, neither saves anything alone: no fix was printed, and no note."""
    saved, notes = what_if(both(), *changes)
    row = saved["cause=LORE101,LORE103"]
    assert (next(iter(saved)), row["turns"], row["tokens"]) == ("cause=LORE101,LORE103", 1, 5000)
    assert row["saved"] == pytest.approx(5000 * (6.25 - 0.5) / 1e6)
    assert row["fix"] == "\n".join(sorted(fix_of(code, "author") for code in ("LORE101", "LORE103")))
    joint_notes = [note for note in notes if "are saved only if all of these are fixed" in note]
    assert changes or joint_notes[0].startswith(
        "cause=LORE101,LORE103: 4,9"
    )  # all cached tokens except those of the tools
    assert "(5,000 tokens re-billed less, in 1 turn)" in lore("simulate", both()).out


def test_changed_system_prompt_has_the_fix_of_check():
    changed = body("one", "1", "two", "3", system=f"{LONG} Answer in verse.", tools=TOOLS), usage(0, 5200), 120
    path = both(changed)
    for command in (("check",), ("simulate", "--what-if")):
        assert "Move text that changes out of the system prompt" in lore(command[0], path, *command[1:]).out


def test_combined_causes_show_what_they_save_beyond_parts():
    """Their sum counted the saving of the date twice."""
    last = body("one", "1", "two", "3", system=f"Today is 2026-09-03. {LONG}", tools=TOOLS[:1]), usage(0, 5200), 120
    assert "all of LORE101, LORE103: saves $0.0286 more" in lore("simulate", both(last), "--what-if").out


def test_what_if_cause_requires_a_code():
    assert "names no cause" in lore("simulate", stable(), "--what-if", "cause=,").err
    assert "--what-if 'LORE101' is not KEY=VALUE" in lore("simulate", stable(), "--what-if", "LORE101").err
    assert lore("simulate", "--what-if", stable()).code == 0


def test_savings_are_of_at_least_the_known_cost():
    result = convert(lore("simulate", moved(), "--what-if", "--json").json, SimulateResult)
    totals, out = result.totals, io.StringIO()
    partial = replace(result, totals=replace(totals, cost=replace(totals.cost, at_least=True)))
    write_simulated(partial, Console(out, colour=False, terminal=False), changes_only=True)
    assert "\nlargest savings (of at least $" in out.getvalue()


def test_only_changes_that_save_are_ranked():
    """A fix that costs $0.0385 more, and one that saves 0 tokens, are listed separately."""
    lines = lore("simulate", moved(), "--what-if").out.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("largest savings (of $")]
    assert lines[at].endswith(", estimated):")
    assert [line.split(":")[0].strip() for line in lines[at + 1 :]] == [
        "cause=LORE102 tools-reordered",
        "fix",
        "simulated, no saving",
    ]
    lines = lore("simulate", moved(), "--what-if", "ttl=1h", "--what-if", "breakpoints=auto").out.splitlines()
    assert not any(line.startswith("largest savings") for line in lines)
    (trial,) = [line for line in lines if line.startswith("simulated, ")]
    assert trial.startswith("simulated, no saving: ttl=1h (costs $0.0")


def test_incomparable_change_has_unknown_saving():
    result = lore("simulate", unmarked(usage(0, 4000, 10), usage(4000, 10, 10)), "--what-if")
    assert "saving unknown: breakpoints=auto" in result.out
    assert "no saving" not in result.out


def test_usage_of_serving_cache_does_not_contradict_another():
    """What OpenAI cached without a breakpoint says nothing of what Anthropic would cache with some."""
    messages = [{"role": "system", "content": LONG}, *({"role": "user", "content": text} for text in ("one", "two"))]
    bill = {
        "prompt_tokens": 4010,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 4000},
    }
    turns = [({"model": "gpt-5.6", "messages": messages[: 2 + number]}, bill, 60 * number) for number in range(2)]
    args = ("--cache", "anthropic", "--what-if", "breakpoints=auto", "--json")
    result = lore("simulate", capture(*turns), *args).json
    assert (result["what_if"][0]["turns"], result["what_if"][0]["tokens"] > 3000) == (1, True)
    assert not [note for note in result["notes"] if "LORE303" in note]


def ask_about_document(number: int):
    """Return a request with a document and a question; the only breakpoint is on the question."""
    blocks = [{"type": "text", "text": text} for text in ("The harbour was built in the north. " * 1_200, f"{number}?")]
    blocks[1]["cache_control"] = CACHE_CONTROL
    return {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": blocks}]}


def test_shared_document_costs_the_same_in_all_commands():
    path = capture(*((ask_about_document(number), usage(0, 9_040), 20 * number) for number in range(4)))
    (finding,) = [row for row in lore("check", path, "--json").json["findings"] if row["code"] == "LORE172"]
    assert finding["lost_dollars"] == pytest.approx(3 * 9_000 * (3.75 - 0.3) / 1e6, rel=0.02)
    saved, _ = what_if(path)
    of_cause = saved["cause=LORE172"]
    assert (of_cause["turns"], of_cause["tokens"]) == (3, finding["lost_tokens"])
    assert (of_cause["saved"], of_cause["fix"]) == (finding["lost_dollars"], finding["fix"])
    assert saved["breakpoints=auto"]["tokens"] == pytest.approx(finding["lost_tokens"], rel=0.02)
    assert saved["breakpoints=auto"]["saved"] >= finding["lost_dollars"]  # by predicted costs
    assert f"read from a cache: about {finding['lost_tokens']:,} tokens" in lore("simulate", path).out
    (cause,) = lore("compare", path, path, "--json").json["causes"]
    assert (cause["code"], cause["left"]["events"], cause["left_dollars"]) == ("LORE172", 3, finding["lost_dollars"])


def test_cold_summary_saves_what_it_wastes():
    """The gateway reports no writes; the bytes of a log's two chains are not compared."""
    claude = {"providerID": "github-copilot", "modelID": "claude-sonnet-4.6"}
    export = Export().user("one").answer("a", bill=(50, 60_000, 9), **claude)
    export.message("user", [export.part("compaction", auto=True, overflow=False)], agent="build")
    export.answer("all", bill=(58_000, 0, 30), agent="compaction", mode="compaction", summary=True, **claude)
    put("session.json", export.data())
    (finding,) = [row for row in lore("check", "session.json", "--json").json["findings"] if row["kind"] == "waste"]
    assert (finding["code"], finding["lost_dollars"]) == ("LORE171", pytest.approx(0.1566))
    assert what_if("session.json", "cause=LORE171")[0]["cause=LORE171"]["saved"] == pytest.approx(0.1566)
    assert "prefix     the bytes of these two requests were not compared" in lore("diff-prefix", "session.json").out


def test_what_if_output_begins_with_cost_and_savings():
    cost, *notes = lore("simulate", moved(), "--what-if").out.splitlines()[1:]
    savings = notes[notes.index(next(line for line in notes if line.startswith("largest savings"))) + 1 :]
    assert cost[:6] == "cost: "
    assert savings[0].startswith("  cause=LORE102 tools-reordered: saves $")
    assert "turn        time (UTC)" in lore("simulate", moved(), "--what-if", "--all").out


def test_best_saving_is_first_whatever_was_asked_first():
    args = [word for change in ("cause=LORE102", "ttl=5m") for word in ("--what-if", change)]
    path = log((0, 0, 20_000, True), (1, 20_000, 500, True), (2, 20_500, 500, True))
    lines = lore("simulate", path, moved(), *args).out.splitlines()
    savings = [
        (line.split(":")[0].strip(), float(line.split("$")[1].split(",")[0])) for line in lines if ": saves $" in line
    ]
    assert [name for name, _ in savings] == ["ttl=5m", "cause=LORE102 tools-reordered"]
    assert savings[0][1] > savings[1][1]


def test_expiry_after_an_hour_suggests_no_hour():
    notes = what_if(talk(hour=True, pause=90))[1]
    assert "ttl=1h" not in "".join(notes)
    assert "what an hour saves" not in lore("simulate", talk(hour=True, pause=90)).out
    assert "what an hour saves" in lore("simulate", talk(hour=False, pause=30)).out


def test_unusable_change_is_only_named_with_its_reason():
    output = lore("simulate", talk(hour=True, pause=1), "--what-if", "ttl=1h", "--what-if", "breakpoints=auto").out
    assert "no saving" not in output
    assert "ttl=1h equals the recording: " in output
    assert "breakpoints=auto changes nothing here: " in output


def test_change_without_effect_is_marked_so():
    changes = "ttl=1h", "breakpoints=auto", "cause=LORE102", "speed=standard"
    assert {row.get("changes_nothing") for row in what_if(talk(hour=True, pause=1), *changes)[0].values()} == {True}
    assert "changes_nothing" not in what_if(talk(hour=False, pause=30), "ttl=1h")[0]["ttl=1h"]
