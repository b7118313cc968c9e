"""Money on the command line: the costs in every command, compared with arithmetic of their own.

Prices of Claude Opus 4.8, in dollars a million tokens: 5 uncached, 0.50 read, 6.25 written for 5 minutes, 25 output.
"""

import json
from pathlib import Path

import pytest

from cli.running import lore, put
from formats import gemini
from formats.claude import answered, asked, log_bytes, text
from helpers.matrix import crossed

READ, WRITE, UNCACHED, OUTPUT = 0.5e-6, 6.25e-6, 5e-6, 25e-6
START = 1_785_000_000  # July 2026
KINDS = ("terminal", "json", "jsonl", "markdown", "junit", "sarif", "github")
pytestmark = pytest.mark.usefixtures("desk")


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def bill(read=0, write=0, uncached=3, output=10, **more):
    split = {"ephemeral_5m_input_tokens": write, "ephemeral_1h_input_tokens": 0}
    counts = {"input_tokens": uncached, "output_tokens": output, "cache_read_input_tokens": read}
    return {**counts, "cache_creation_input_tokens": write, "cache_creation": split, **more}


def transcript(*bills, version="2.1.200", model="claude-opus-4-8", name="session.jsonl"):
    """A log of Claude Code: a question and an answer a bill, a minute apart."""
    lines, last = [], None
    for number, usage in enumerate(bills):
        at = f"2026-07-25T17:{number:02}"
        members = {"version": version, "cwd": "/w"}
        lines.append(asked(f"q{number}", f"question {number}", last, timestamp=f"{at}:00.000Z", **members))
        lines.append(
            answered(
                f"a{number}", f"msg_{number}", text("an answer"), f"q{number}", timestamp=f"{at}:05.000Z",
                usage=usage, **members,
            )
        )  # fmt: skip
        lines[-1]["message"]["model"] = model
        last = f"a{number}"
    return put(name, log_bytes(*lines))


def body(*turns, system="You are careful. " * 20_000, **more):
    mark = {"cache_control": {"type": "ephemeral"}}
    messages = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": [{"type": "text", "text": text}]}
        for number, text in enumerate(turns)
    ]
    messages[-1]["content"][0].update(mark)
    head = [{"type": "text", "text": system, **mark}]
    return {"model": "claude-opus-4-8", "max_tokens": 9, "system": head, "messages": messages, **more}


def capture(*turns, name="capture.jsonl"):
    return put(name, *[{"request": request, "usage": paid, "timestamp": START + at} for request, paid, at in turns])


def wasteful():
    """Two cache breaks: the system prompt changed (40,000 tokens), and nothing explains the other (70,000)."""
    return capture(
        (body("one"), bill(0, 40_000), 0),
        (body("one", "1", "two", system="You are bold. " * 20_000), bill(0, 70_000), 30),
        (body("one", "1", "two", "2", "three", system="You are bold. " * 20_000), bill(0, 70_500), 60),
    )


def billed(ran):
    return ran.json["totals"]["cost"]["billed"]


SERVED = {
    "as usual": ({}, 1),
    "standard": ({"speed": "standard", "service_tier": "standard"}, 1),
    "fast": ({"speed": "fast"}, 2),
    "batch": ({"service_tier": "batch"}, 0.5),
    "one place": ({"inference_geo": "us"}, 1.1),
}


@crossed("name, kind", SERVED, ["transcript", "capture"])
def test_service_tier_of_a_response_is_priced(name, kind):
    served, times = SERVED[name]
    bills = [bill(0, 40_000, **served), bill(0, 41_000, **served)]
    if kind == "capture":
        head = "You are bold. " * 20_000
        turns = (body("one"), bills[0], 0), (body("one", "1", "two", system=head), bills[1], 30)
        path = capture(*turns)
    else:
        path = transcript(*bills)
    total = times * (81_000 * WRITE + 6 * UNCACHED + 20 * OUTPUT)
    simulated = lore("simulate", path, "--json")
    assert billed(simulated) == pytest.approx(total, abs=2e-6)
    assert sum(simulated.json["totals"]["by_price"].values()) == pytest.approx(total, abs=4e-6)
    findings = [finding for finding in lore("check", path, "--json").json["findings"] if finding["lost_dollars"]]
    assert [finding["lost_tokens"] for finding in findings] == [40_000]
    assert findings[0]["lost_dollars"] == pytest.approx(times * 40_000 * (WRITE - READ), abs=2e-6)


def test_fast_mode_is_named_in_every_sum(monkeypatch, tmp_path):
    fast = {"speed": "fast"}
    log = transcript(bill(0, 40_000), bill(40_000, 1_000, **fast), bill(41_000, 1_000, **fast))
    normal = 81_000 * READ + 2_000 * WRITE + 6 * UNCACHED + 20 * OUTPUT
    says = f"fast mode: 2 requests cost ${normal:.4f} more than at the list price"
    assert f"{says}; to do: switch fast mode off" in lore("simulate", log).out
    (extra,) = lore("simulate", log, "--json").json["totals"]["cost"]["surcharges"]
    assert extra["dollars"] == pytest.approx(normal)
    for change in ((), ("--what-if",), ("--what-if", "speed=standard")):
        (saving,) = [row for row in lore("simulate", log, *change, "--json").json["what_if"] if row["tokens"] == 0]
        assert (saving["change"], saving["turns"], saving["saved"]) == ("speed=standard", 2, pytest.approx(normal))
    Path(".claude/projects/-w").mkdir(parents=True)
    Path(log).rename(".claude/projects/-w/session.jsonl")
    monkeypatch.setenv("HOME", str(tmp_path))
    spent = lore("--since", "2020-01-01", "--by", "model")
    assert says in spent.out
    assert "claude-opus-4-8 (fast mode)" in spent.out
    page = lore("--since", "2020-01-01", "--report", "html=page.html")
    assert page.code == 0
    assert says.replace("fast", "Fast", 1) in Path("page.html").read_text()


def test_refused_attempt_has_its_own_row(monkeypatch, tmp_path):
    attempt = {"type": "message", "model": "claude-opus-4-5", **bill(0, 40_000)}
    answer = {"type": "fallback_message", "model": "claude-opus-4-8", **bill(40_000, 0)}
    log = transcript(bill(40_000, 0, iterations=[attempt, answer]), bill(40_000, 1_000))
    Path(".claude/projects/-w").mkdir(parents=True)
    Path(log).rename(".claude/projects/-w/session.jsonl")
    monkeypatch.setenv("HOME", str(tmp_path))
    spent = lore("--since", "2020-01-01", "--by", "model").out
    assert "billed twice after a refusal by claude-opus-4-5: 1 request cost $0.25 more than at the list price" in spent
    assert "claude-opus-4-8 (billed twice after a refusal by claude-opus-4-5)" in spent


def test_all_reasons_of_another_price_are_named():
    messages = [{"role": "user", "content": "Continue."}]
    request = {"model": "gpt-5.5", "messages": messages, "service_tier": "flex"}
    usage = {"prompt_tokens": 300_000, "completion_tokens": 10_000, "prompt_tokens_details": {"cached_tokens": 0}}
    log = put("long.jsonl", {"request": request, "usage": usage, "timestamp": START})
    assert "flex processing, prompts over 272,000 tokens: 1 request cost" in lore("simulate", log).out


def test_simulate_counts_gemini_thoughts_as_output():
    path = put("gemini.jsonl", gemini.plain().data())
    totals = lore("simulate", path, "--json").json["totals"]
    assert totals["billed"]["output_tokens"] == lore("fold", path, "--json").json["usage"]["output_tokens"] == 60
    assert "other_passes" not in totals


def test_every_pass_of_a_response_is_billed():
    summary = {"type": "compaction", **bill(180_000, 0, uncached=0, output=3_500)}
    message_pass = {"type": "message", **bill(0, 23_000, uncached=3, output=1_000)}
    path = transcript(bill(0, 23_000, output=1_000, iterations=[summary, message_pass]), bill(23_000, 100))
    result = lore("simulate", path, "--json")
    first, second = result.json["turns"]
    assert (first["billed"]["read_tokens"], first["billed"]["write_tokens"]) == (0, 23_000)
    assert first["other_passes"]["read_tokens"] == 180_000
    assert "other_passes" not in second
    assert result.json["totals"]["other_passes"]["output_tokens"] == 3_500
    passes = 180_000 * READ + 3_500 * OUTPUT, 23_000 * WRITE + 3 * UNCACHED + 1_000 * OUTPUT
    assert first["cost"]["billed"] == pytest.approx(sum(passes), abs=2e-6)
    output = lore("simulate", path).out
    assert "180,000" in next(line for line in output.splitlines() if "of other passes" in line)
    assert not [finding for finding in lore("check", path, "--json").json["findings"] if finding["is_break"]]
    folded = lore("fold", path, "--json").json["usage"]
    assert (folded["read_tokens"], folded["output_tokens"]) == (203_000, 4_510)


@pytest.mark.parametrize(
    ("version", "noted"),
    [
        ("1.0.98", "an unknown part"), ("2.0.76", "an unknown part"), ("2.1.9", "an unknown part"),
        ("2.1.12", "about 2 %"), ("2.1.29", "about 2 %"), ("2.1.30", "about 45 %"), ("2.1.58", "about 45 %"),
        ("2.1.58-beta.1", "about 45 %"), ("2.1.59", ""), ("2.1.119", ""), ("2.10.1", ""), ("3.0.0", ""),
    ],
)  # fmt: skip
def test_partially_noted_output_is_marked(version, noted):
    path = transcript(bill(0, 40_000), bill(40_000, 100), version=version)
    result = lore("simulate", path, "--json").json
    assert [turn["billed"].get("partial_output", False) for turn in result["turns"]] == [bool(noted)] * 2
    assert result["totals"]["billed"].get("partial_output", False) is bool(noted)
    assert result["totals"]["partial_outputs"] == (2 if noted else 0)
    output = lore("simulate", path).out
    assert ("output (partial) $" in output) is bool(noted)
    folded = lore("fold", path, "--json").json["usage"]
    assert folded.get("partial_output", False) is bool(noted)
    assert ("20 output (partial) tokens" in lore("fold", path).out) is bool(noted)
    note = f"output is recorded in part in 2 turns, so its cost is too low ({noted} by claude-code {version})"
    assert (note in " ".join(output.split())) is bool(noted)


AGAIN, UNEXPLAINED = 40_000 * (WRITE - READ), 70_000 * (WRITE - READ)  # $0.23 and $0.40


def test_sums_separate_waste_from_unexplained():
    path = wasteful()
    summary = lore("check", path, "--json").json["summary"]
    assert (summary["waste_tokens"], summary["unexplained_tokens"]) == (40_000, 70_000)
    assert (summary["waste_dollars"], summary["unexplained_dollars"]) == pytest.approx((AGAIN, UNEXPLAINED), abs=2e-6)
    result = lore("simulate", path, "--json", "--what-if", "cause=LORE301").json
    totals = result["totals"]
    assert (totals["waste_tokens"], totals["unexplained_tokens"]) == (40_000, 70_000)
    assert totals["cost"]["waste"] == pytest.approx(AGAIN, abs=2e-6)
    assert totals["cost"]["unexplained"] == pytest.approx(UNEXPLAINED, abs=2e-6)
    assert [row["saved"] for row in result["what_if"]] == [0.0]
    for by in ("model", "project", "day"):
        (group,) = [row for row in result["groups"] if row["by"] == by]
        assert (group["waste_tokens"], group["unexplained_tokens"]) == (40_000, 70_000)
        assert (group["waste"], group["unexplained"]) == pytest.approx((AGAIN, UNEXPLAINED), abs=2e-6)
    causes = {row["name"]: row for row in result["groups"] if row["by"] == "cause"}
    assert (causes["LORE301"]["waste_tokens"], causes["LORE301"]["unexplained_tokens"]) == (0, 70_000)
    every = lore("simulate", path, "--what-if", "--json").json["what_if"]
    assert not [row for row in every if "LORE301" in row["change"]]


@pytest.mark.parametrize("kind", KINDS)
def test_report_sums_waste_without_unexplained_losses(kind):
    lore("check", wasteful(), f"--report={kind}=out")
    report = Path("out").read_text("utf-8")
    if kind == "json":
        findings, summary = json.loads(report)["findings"], json.loads(report)["summary"]
    elif kind == "jsonl":
        *findings, last = map(json.loads, report.splitlines())
        summary = last["summary"]
    elif kind == "sarif":
        summary, findings = json.loads(report)["runs"][0]["properties"]["summary"], []
        texts = [item["message"]["text"] for item in json.loads(report)["runs"][0]["results"]]
        assert [("40,000 tokens re-billed ($0.23)" in item, "($0.40)" in item) for item in texts].count(
            (True, False)
        ) == 1
    if kind in ("json", "jsonl", "sarif"):
        assert (summary["waste_tokens"], summary["unexplained_tokens"]) == (40_000, 70_000)
        assert {item["kind"]: item["lost_tokens"] for item in findings if item["is_break"]} in (
            {}, {"waste": 40_000, "unattributable": 70_000},
        )  # fmt: skip
        return
    if kind != "github":  # which has annotations of findings, and no sums
        assert "re-billed as waste: 40,000 tokens ($0.23)" in report
        assert "re-billed, no certain cause: 70,000 tokens ($0.40) in 1 cache break" in report
    if kind != "markdown":
        assert "40,000 tokens re-billed ($0.23)" in report
