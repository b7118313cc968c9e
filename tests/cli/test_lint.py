"""`lore lint`: answers for people and programs, places in bodies, settings, exit codes; hostile and private text."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli.running import lore, put
from cli.running import session as log
from helpers.schemas import valid
from model.making import dumps

MARK = {"type": "ephemeral"}
LONG = "Read before you write, run the tests, and say what you changed and why. " * 100


def text(words="Begin.", mark=None):
    return {"type": "text", "text": words} | ({} if mark is None else {"cache_control": mark})


def body(*blocks, words=LONG, **fields):
    messages = [{"role": "user", "content": list(blocks) or [text()]}]
    return {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": [text(words, MARK)], **fields,
        "messages": messages}  # fmt: skip


GOOD, REFUSED = body(), body(text("", MARK))
CLOCK = body(words=LONG + "\nThe current time is 09:00:12.\nSession id: 0192-7fa3")


def linted(*args, **kwargs):
    result = lore("lint", *args, "--json", **kwargs)
    valid(result.json, "lint")
    return result


@pytest.mark.parametrize("indent", [None, 2])
def test_lint_finding_names_its_byte_in_the_body(indent):
    data = json.dumps(
        {**CLOCK, "tools": [{"name": "é", "input_schema": {}}]}, indent=indent, ensure_ascii=False
    ).encode()
    findings = {finding["code"]: finding for finding in linted(put("a.json", data)).json["findings"]}
    assert data[findings["LORE151"]["body_offset"] :].startswith(b"current time is 09:00:12")
    assert data[findings["LORE182"]["body_offset"] :].startswith(b"Session id: 0192-7fa3")
    value = data.index(b'"text"', data.index(b'"system"'))
    assert findings["LORE151"]["offset"] > findings["LORE151"]["body_offset"] - value > 0
    block = data.index(b"{", data.index(b'"system"'))
    assert findings["LORE151"]["line"] == data.count(b"\n", 0, block) + 1
    (mark,) = linted("a.json").json["requests"][0]["breakpoints"]
    assert data[mark["body_offset"] :].startswith(b"{")


def test_repeated_word_is_placed_at_the_varying_occurrence():
    words = LONG + "\nFor example, Session id: 0192-7fa3 is one.\nSession id: 0192-7fa3"
    data = dumps(body(words=words))
    (finding,) = linted(put("a.json", data)).json["findings"]
    assert finding["body_offset"] == data.rindex(b"Session id")


def test_prompt_under_minimum_has_nothing_to_lose():
    data = dumps(body(words="The date is 2026-01-31. Session id: 0192-7fa3"))
    findings = linted(put("a.json", data)).json["findings"]
    assert {"LORE182", "LORE306"} <= {finding["code"] for finding in findings}
    assert not [finding for finding in findings if "stake_tokens" in finding or "re-billed" in finding["message"]]


@pytest.mark.parametrize(("version", "refused"), [("bedrock-2023-05-31", True), ("2023-06-01", False)])
def test_version_of_a_bare_body_names_bedrock(version, refused):
    """Bedrock refuses automatic caching; its body names no model, and was taken for Anthropic's (litellm#26320)."""
    data = {**body(text()), "anthropic_version": version, "cache_control": MARK}
    result = linted("--model", "claude-opus-4-8", put("a.json", dumps({**data, "model": None})))
    codes = [row["code"] for row in result.json["findings"] if row["json_path"] == "cache_control"]
    assert codes == ["LORE180"] * refused
    assert result.code == int(refused)


def test_bedrock_cache_points_do_not_count_in_paths():
    point = {"cachePoint": {"type": "default"}}
    content = [{"text": "a"}, point, {"text": ""}, point]
    data = dumps({"modelId": "anthropic.claude-sonnet-4-5-v1:0", "system": [{"text": LONG}],
                   "messages": [{"role": "user", "content": content}]})  # fmt: skip
    (finding,) = [row for row in linted(put("a.json", data)).json["findings"] if row["code"] == "LORE180"]
    assert finding["json_path"] == "messages[0].content[1]"
    assert data[finding["body_offset"] :].startswith(b'{"text":""}')


def test_lint_reads_stdin_folders_and_single_requests():
    assert linted("-", stdin=dumps(GOOD)).json["summary"]["cached"] == 1
    Path("in").mkdir()
    put("in/a.jsonl", b"".join(dumps(request) + b"\n" for request in (GOOD, CLOCK, REFUSED)))
    put("in/s.jsonl", log())
    put("in/readme.md", b"# words\n")
    result = linted("in")
    assert result.code == 1
    sums = result.json["summary"]
    assert (sums["files"], sums["requests"], sums["skipped"], sums["errors"]) == (1, 3, 2, 1)
    rows = {(row["chain"], row["turn"]): row for row in result.json["requests"]}
    for chain, number in rows:
        assert linted(f"in/a.jsonl#{chain}:{number}").json["requests"] == [rows[chain, number]]
    assert lore("lint", "in/a.jsonl#77").code == 2


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [("s.jsonl", log(), "is a session log, and holds no requests"), ("b.bin", b"\x00\x01", "unrecognised format"),
     ("no.json", None, "cannot read")],
)  # fmt: skip
def test_lint_rejects_named_file_without_requests(name, data, message):
    if data is not None:
        put(name, data)
    result = lore("lint", name)
    assert (result.code, message in result.err, "hint: " in result.err or data is None) == (2, True, True)
    assert lore("lint").code == 2


def test_lint_exits_3_if_request_is_unreadable():
    put("a.jsonl", dumps(GOOD) + b'\n{"request": {"model": "x", "prompt": "an old shape"}}\n')
    assert linted("a.jsonl").code == 3


def test_lint_exits_3_on_a_torn_file():
    put("good.json", dumps(GOOD))
    put("torn.json", dumps(GOOD)[:200])
    for names in (["good.json", "torn.json"], ["."]):
        result = lore("lint", *names, "--report", "junit=lint.xml")
        assert result.code == 3
        assert "not judged: torn.json:1" in result.err.replace("./", "")
        assert Path("lint.xml").read_text().count("<error ") == 1


def test_quiet_lint_prints_errors_and_warnings_only():
    put("a.json", dumps(UNMARKED)), put("clock.json", dumps(CLOCK))
    whole, quiet = lore("lint", "a.json", "clock.json"), lore("lint", "a.json", "clock.json", "-q")
    assert quiet.code == whole.code == 1
    assert [line for line in quiet.out.splitlines() if line[:1] != " "] == [
        line for line in whole.out.splitlines() if line.startswith(("✗", "!"))
    ]
    assert lore("lint", "a.json", "-q", "-v").code == 2


def test_junit_fails_a_test_by_its_errors_only():
    put("a.json", dumps({**UNMARKED, "system": "The current time is 09:00:12.\n" + LONG}))
    assert lore("lint", "a.json", "--select", "LORE114,LORE151", "--report", "junit=lint.xml").code == 1
    (case,) = ElementTree.parse("lint.xml").iter("testcase")  # noqa: S314 - lore wrote it
    failure, output = case.findtext("failure") or "", case.findtext("system-out") or ""
    assert ("LORE114" in failure, "LORE151" in failure, "! LORE151" in output) == (True, False, True)


def test_lint_applies_the_settings_of_check():
    put("a.json", dumps(CLOCK))
    codes = [finding["code"] for finding in linted("a.json").json["findings"]]
    assert codes == ["LORE151", "LORE153", "LORE182"]
    assert [finding["code"] for finding in linted("a.json", "--select", "LORE182").json["findings"]] == ["LORE182"]
    result = linted("a.json", "--ignore", "LORE15")
    assert [finding["code"] for finding in result.json["findings"]] == ["LORE182"]
    assert result.json["summary"]["ignored"] == 2
    exempt = b'[[check.exempt]]\ncode = "LORE151"\npath = "a.json"\nreason = "frozen"\n'
    put("lore.toml", b'[check]\ncount_as_waste = ["LORE182"]\n' + exempt)
    result = linted("a.json")
    assert (result.code, result.json["summary"]["exempted"]) == (1, 1)
    assert lore("lint", "a.json", "--select", "LORE9").code == 2


def test_lint_takes_model_and_cache():
    gemini = {
        "systemInstruction": {"parts": [{"text": LONG * 2}]},
        "contents": [{"role": "user", "parts": [{"text": "Go."}]}],
    }
    put("g.json", dumps(gemini))
    assert "give its name with --model" in lore("lint", "g.json").out
    assert "would be cached" in lore("lint", "g.json", "--model", "gemini-2.5-pro").out
    assert linted("g.json", "--cache", "deepseek").json["requests"][0]["cache"] == "deepseek"
    assert lore("lint", "g.json", "--cache", "deepsek").code == 2


def test_lint_escapes_controls_and_masks_credentials():
    secret = "sk-ant-api03-" + "a1" * 20
    words = f"{LONG}\nSession id: 01\x1b[31m92{secret}\nrequest_id={secret}"
    evil = {"name": "z\x1b]0;x\x07\u202e::error::", "input_schema": {}}
    request = body(words=words, tools=[evil, {"name": "a", "input_schema": {}}], model="claude-sonnet-4-5\x1b[2J")
    put("a.json", dumps(request))
    for args in ([], ["--json"], ["--report", "github"], ["--report", "markdown"], ["--report", "junit"]):
        out = lore("lint", "a.json", "-v", *args).out
        assert secret not in out
        assert not {"\x1b", "\x07", "\u202e"} & set(out)
        if "github" not in args:
            assert not [line for line in out.splitlines() if line.startswith("::")]


def test_lint_redact_hides_body_text():
    canary = "zEiSiG"
    words = f"{LONG}\nSession id: {canary}-0192\nThe current time is 09:00:12 {canary}."
    tools = [{"name": f"z{canary}", "input_schema": {}}, {"name": f"a{canary}", "input_schema": {}}]
    put("a.json", dumps(body(text(canary), words=words, tools=tools, model=f"claude {canary}", **{canary: canary})))
    for args in ([], ["--json"], ["-v"], ["--report", "sarif"], ["--report", "markdown"], ["--report", "jsonl"]):
        result = lore("lint", "a.json", "--redact", *args)
        assert canary not in result.out + result.err
    assert canary in lore("lint", "a.json", "-v").out


@pytest.mark.parametrize(
    "odd",
    [
        {"system": 7}, {"system": [7, None, {"text": 7}]}, {"tools": {"a": 1}}, {"tools": [7, {"name": 7}, {}]},
        {"messages": [7]},
        {"messages": [{"role": "user", "content": [7, {"cache_control": 7}, {"cache_control": {}}]}]},
        {"cache_control": 7}, {"model": 7}, {"prompt_cache_key": 7, "prompt_cache_retention": {"a": 1}, "store": "no"},
        {"system": [{"type": "text", "text": "x", "cache_control": {"ttl": ["1h"]}}]},
    ],
)  # fmt: skip
def test_lint_answers_any_json_value(odd):
    result = lore("lint", put("a.json", dumps({**GOOD, **odd})), "--json")
    assert result.code in (0, 1, 2, 3), result.err
    openai = {"model": "gpt-5.6", "input": [{"role": "user", "content": "Go."}], "instructions": LONG}
    assert lore("lint", put("b.json", dumps({**openai, **odd})), "--json").code in (0, 1, 2, 3)


@pytest.mark.parametrize(("billed", "cached"), [(900, 0), (1_400, 1_390)])
def test_lint_claims_no_more_tokens_than_billed(billed, cached):
    usage = {"input_tokens": billed, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    put("one.jsonl", dumps({"request": GOOD, "usage": {**usage, "output_tokens": 9}}))
    (row,) = linted("one.jsonl").json["requests"]
    assert (row["tokens"], row["cached_tokens"]) == (billed, pytest.approx(cached, abs=30))


@pytest.mark.parametrize("words", ["Another conversation.", "Begin."])  # the second: both are one conversation
@pytest.mark.parametrize("names", [("bad.json",), ("bad.json", "good.json"), ("good.json", "bad.json"), (".",)])
def test_lint_fails_whatever_lies_beside_a_bad_file(names, words):
    put("good.json", dumps(GOOD))
    put("bad.json", dumps({**GOOD, "system": [text(LONG)], "messages": [{"role": "user", "content": [text(words)]}]}))
    result = lore("lint", *names)
    assert result.code == 1
    assert "✗" in result.out
    assert "; it has no cache breakpoint" in lore("lint", "bad.json").out  # it is long enough
    assert lore("lint", "good.json").code == 0


TOOLS = [{"name": name, "description": "d", "input_schema": {"type": "object"}} for name in ("write", "read")]
POINT = {"cachePoint": {"type": "default"}}
STUCK = {  # the only cache point is on the first message
    "modelId": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "messages": [
        {"role": "user", "content": [{"text": LONG}, POINT]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "read", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": LONG * 4}]}}]},
        {"role": "assistant", "content": [{"text": "I read it."}]},
        {"role": "user", "content": [{"text": "Go on."}]},
    ],
}
UNMARKED = {**GOOD, "system": LONG}
SHORT = body(words="Be brief.")
OPENAI = {"model": "gpt-5.4", "instructions": LONG, "input": [{"role": "user", "content": "Go."}]}
BODIES = {
    "refused": REFUSED, "clock": CLOCK, "stuck": STUCK, "unmarked": UNMARKED, "short": SHORT,
    "tiny": {**GOOD, "system": "Be brief."},
    "unsorted": body(tools=TOOLS), "openai": OPENAI, "key": {**OPENAI, "prompt_cache_key": "k" * 65},
    "five": body(*(text("part", MARK) for _ in range(5))),
}  # fmt: skip


def codes(command: str, *paths: str) -> set[tuple[str, str]]:
    return {(finding["code"], finding["fix"]) for finding in lore(command, *paths, "-v", "--json").json["findings"]}


@pytest.mark.parametrize("name", BODIES)
def test_check_reports_what_lint_reports(name):
    put("a.json", dumps(BODIES[name]))
    assert codes("lint", "a.json")
    assert codes("check", "a.json") >= codes("lint", "a.json")


@pytest.mark.parametrize(("read", "severity", "lost"), [(0, "warning", True), (512, "note", False)])
def test_text_behind_images_of_unread_requests_is_a_warning(read, severity, lost):
    bill = {"prompt_tokens": 4_000, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": read}}
    lines = []
    for name in ("iVBORw0K", "R0lGODlh", "/9j/4AAQ"):
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{name * 20}"}}
        said = [image, {"type": "text", "text": "Write down each line of the page. " * 200}]
        lines.append({"request": {"model": "ocr", "messages": [{"role": "user", "content": said}]}, "usage": bill})
    put("pages.jsonl", "\n".join(json.dumps(line) for line in lines).encode())
    (finding,) = [each for each in lore("check", "--json", "pages.jsonl").json["findings"] if each["code"] == "LORE184"]
    assert (finding["severity"], bool(finding["lost_tokens"])) == (severity, lost)


def test_check_reports_advice_once_a_recording():
    bodies = [body(text(f"Task {number}: look at file {number}."), tools=TOOLS) for number in range(5)]
    put("a.jsonl", b"".join(dumps(request) + b"\n" for request in bodies))
    findings = lore("check", "a.jsonl", "-v", "--json").json["findings"]
    assert [finding["code"] for finding in findings].count("LORE183") == 1


def next_of(first: dict) -> dict:
    messages = [*first["messages"], {"role": "assistant", "content": "Done."}, {"role": "user", "content": "More."}]
    system = [{**block, "text": block["text"].replace("09:00:12", "09:01:40")} for block in first["system"]]
    return {**first, "system": system, "messages": messages}


@pytest.mark.parametrize("command", ["check", "lint"])
def test_two_named_files_are_judged_like_one(command):
    first = body(words="The current time is 09:00:12.\n" + LONG)
    put("a.json", dumps(first))
    put("b.json", dumps(next_of(first)))
    put("both.jsonl", dumps(first) + b"\n" + dumps(next_of(first)) + b"\n")
    separate, together = (lore(command, *names, "--json") for names in (("a.json", "b.json"), ("both.jsonl",)))
    assert separate.code == together.code == 1
    members = ("code", "severity", "chain", "turn", "message", "lost_tokens", "json_path")
    rows = [
        [{name: finding[name] for name in members} for finding in result.json["findings"]]
        for result in (separate, together)
    ]
    assert rows[0] == rows[1]
    assert {finding["path"] for finding in separate.json["findings"]} <= {"a.json", "b.json"}
    assert separate.json["summary"] == {**together.json["summary"], "files": 2}


def test_two_bodies_cost_the_same_in_each_command():
    first = body(words="The current time is 09:00:12.\n" + LONG)
    put("a.json", dumps(first))
    put("b.json", dumps(next_of(first)))
    put("both.jsonl", dumps(first) + b"\n" + dumps(next_of(first)) + b"\n")
    costs = {
        cause["lost_dollars"]
        for args in (("check", "a.json", "b.json"), ("check", "both.jsonl"))
        for cause in lore(*args, "--json").json["findings"]
        if cause["code"] == "LORE101"
    }
    for names in (["a.json", "b.json"], ["both.jsonl"]):
        costs |= {cause["lost_dollars"] for cause in lore("diff-prefix", *names, "--json").json["causes"][:1]}
    (dollars,) = costs
    assert dollars > 0


def test_simulate_joins_named_bodies_like_check():
    first = body(words="The current time is 09:00:12.\n" + LONG)
    put("a.json", dumps(first))
    put("b.json", dumps(next_of(first)))
    put("both.jsonl", dumps(first) + b"\n" + dumps(next_of(first)) + b"\n")
    separate, together = (lore("simulate", *names, "--json").json for names in (("a.json", "b.json"), ("both.jsonl",)))
    assert separate["totals"] == together["totals"]
    assert [turn["predicted"] for turn in separate["turns"]] == [turn["predicted"] for turn in together["turns"]]


@pytest.mark.parametrize(
    ("request_body", "code"),
    [(GOOD, 0), (UNMARKED, 1), (SHORT, 0), (body(words="The current time is 09:00:12.\n" + LONG), 1), (CLOCK, 0)],
    ids=["good", "unmarked", "short", "clock-first", "clock-last"],
)
def test_lint_exits_1_if_long_prompt_is_uncached(request_body, code):
    if request_body is CLOCK:  # everything before the clock has a breakpoint of its own
        request_body = {**CLOCK, "system": [text(LONG, MARK), text("The current time is 09:00:12.", MARK)]}
    assert lore("lint", put("a.json", dumps(request_body))).code == code


def test_constant_example_of_a_time_is_no_clock():
    tool = {"name": "CronCreate", "input_schema": {"type": "object"},
        "description": 'Schedule a prompt. Examples: "remind me at 2:30pm today", "at 9am".'}  # fmt: skip
    put("a.json", dumps(body(tools=[tool])))
    assert not codes("lint", "a.json") & {"LORE151", "LORE153", "LORE182"}


def test_lint_counts_equal_recordings_once():
    result = linted(*(put(name, GOOD) for name in ("a.jsonl", "b.jsonl")))
    assert (result.json["summary"]["requests"], "counted once" in result.err) == (1, True)


def test_lint_and_check_name_one_kind():
    put("a.jsonl", CLOCK, {**CLOCK, "messages": [*CLOCK["messages"], *body(text("On."))["messages"]]})
    found = [lore(command, "a.jsonl", "--json").json["findings"] for command in ("lint", "check")]
    kinds = [{finding["kind"] for finding in findings if finding["code"] == "LORE182"} for findings in found]
    assert kinds == [{"unattributable"}] * 2


@pytest.mark.parametrize(("hours", "found"), [((8, 8), {"LORE151", "LORE153"}), ((8, 20), set())])
def test_clock_that_another_day_repeats_is_none(hours, found):
    asked = body(words=LONG + "\nThe current time is 09:00:12.")
    sent = {"url": "https://api.anthropic.com/v1/messages", "method": "POST", "body": asked}
    put("a.jsonl", b"\n".join(dumps({"timestamp": f"2026-07-{day:02}T09:00:12Z", "request": sent}) for day in hours))
    assert {code for code, _ in codes("lint", "a.jsonl")} == {code for code, _ in codes("check", "a.jsonl")} == found


def test_lint_counts_further_warnings_of_one_kind():
    for number in range(4):
        put(f"d/{number}.jsonl", dumps(body(words=f"{LONG}{number}")) + b'\n{"model": "cla')
    assert "! LORE202 torn-last-line, 2 more in 2 files (-v: each)" in lore("lint", "d").out
    assert lore("lint", "d", "-v").out.count("LORE202") == 4


def test_id_repeated_by_later_file_is_refuted():
    """The row of the first file was written before the second one showed that the id is the same in each request."""
    words = LONG + "\nRequest ID: 3f2b8c1e-91d4-4a57-8a3e-5b0c9e7d2f61"
    put("one/a.json", dumps(body(words=words)))
    put("two/b.json", dumps(next_of(body(text("Plan a trip."), words=words))))
    assert [row["codes"] for row in linted("one", "two").json["requests"]] == [[], []]
