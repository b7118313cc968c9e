"""Every command and option does what its help says."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from msgspec import Struct

from cli.running import compacted, lore, put, session
from conftest import ROOT
from helpers.each import each
from helpers.schemas import valid
from lore.commands.about import json_schema, schemas
from lore.model.codes import CODES
from model.making import assistant, body, header, log, record, user

ONE, TWO = body("one", model="claude-x"), body("one", assistant("two"), "three", model="claude-x")
WASTE = [body("one", assistant("two"), system=f"Today is 2026-01-0{n}.") for n in (1, 2)]
LONG = "a long request " * 2000  # a bill of 5,000 tokens needs that many bytes at least
FOR_AUTHOR, FOR_USER = ["--for", "author"], ["--for", "user"]
ONE_LONG, TWO_LONG = body(LONG, model="claude-x"), body(LONG, assistant("two"), "three", model="claude-x")


# assemble


def texts(ran):
    return [block["text"] for message in ran.json["messages"] for block in message["content"]]


@pytest.mark.parametrize(
    "args", [("s.jsonl", "--turn", "1"), ("s.jsonl#1",), ("s.jsonl#main:1",), ("s.jsonl#1", "--turn", "1")]
)
def test_assemble_takes_turn_by_option_or_name(args):
    put("s.jsonl", session())
    assert texts(lore("assemble", *args)) == ["first", "[current-time]\nnoon"]


def test_assemble_tail_policy_is_configurable():
    put("s.jsonl", session(record("turn_started", turn=3, context={"overlay": "Be brief."})))
    put("lore.toml", b"[assemble]\ntail='user'\n")
    assert lore("assemble", "s.jsonl", "--dialect", "openai-chat").json["messages"][-1]["role"] == "user"
    put("other.toml", b"[assemble]\ntail='system'\n")
    result = lore("assemble", "s.jsonl", "--dialect", "openai-chat", "--config", "other.toml")
    assert result.json["messages"][-1]["role"] == "system"


def test_assemble_verbose_names_segments_and_dialect():
    result = lore("assemble", put("s.jsonl", session()), "-v")
    assert "segments" in result.err
    assert "dialect anthropic" in result.err


@pytest.mark.parametrize(("name", "count"), [("claude-code/compaction.jsonl", 1), ("recordings/stable.jsonl", 0)])
def test_assemble_notes_that_a_log_lacks_breakpoints(name, count):
    result = lore("assemble", str(ROOT / "fixtures" / name))
    assert (
        result.err.count("note: no cache breakpoint is set: a session log does not record those of the agent") == count
    )


def test_assemble_writes_credentials_that_fold_masks():
    secret = "ghp_" + "a1B2" * 9
    put("s.jsonl", log(header(), record("append", item=user("u", secret)), record("turn_started", turn=1)))
    assert secret in lore("assemble", "s.jsonl").out
    assert secret not in lore("fold", "s.jsonl").out + lore("fold", "s.jsonl", "--json").out


# diff-prefix


def test_diff_prefix_without_tokens_has_null_counts():
    result = lore("diff-prefix", put("a", WASTE[0]), put("b", WASTE[1]), "--json", "--no-tokens")
    answer = valid(result.json, "diff-prefix")
    names = ("left_tokens", "right_tokens", "common_prefix_tokens", "tokenizer")
    assert [answer["prompt"][name] for name in names] == [None] * 4
    assert answer["causes"][0]["tokens"] == "estimated"


@pytest.mark.parametrize(("limit", "code"), [("0.0", 0), ("0.1", 0), ("0.99", 1), ("1", 1)])
def test_diff_prefix_fail_under_exits_1_below_share(limit, code):
    put("a", WASTE[0])
    put("b", WASTE[1])
    result = lore("diff-prefix", "a", "b", "--no-tokens", "--fail-under", limit)
    reuse = re.search(r"unchanged \(([0-9.]+ %)\)", result.out)
    assert reuse is not None
    assert (result.code, f"is not met: a pair reuses {reuse[1]}" in result.err) == (code, code == 1)


def test_diff_prefix_fail_under_exits_3_without_a_prompt():
    put("a.json", ONE)
    put("notes.txt", b"no request")
    for names, code in ((("notes.txt", "a.json"), 3), (("a.json", "a.json"), 0)):
        result = lore("diff-prefix", *names, "--fail-under", "0.5")
        assert (result.code, "--fail-under cannot be judged: no prompt in notes.txt" in result.err) == (code, code == 3)


@pytest.mark.parametrize("args", [("b.json",), ("s.jsonl#1",), ("a.json", "b.json#7"), ("x.bin#1", "b.json")])
def test_diff_prefix_rejects_names_without_pair(args):
    put("a.json", ONE)
    put("b.json", TWO)
    put("x.bin", b"\x00")
    put("s.jsonl", session())
    assert lore("diff-prefix", *args).code == 2


def test_diff_prefix_dialect_option_overrides_content():
    answer = lore("diff-prefix", put("a", ONE), put("b", TWO), "--json", "--no-tokens", "--dialect", "openai-chat").json
    assert answer["left"]["dialect"] == "openai-chat"


def test_diff_prefix_json_includes_usage():
    line = {"request": ONE_LONG, "usage": {"input_tokens": 1, "cache_creation_input_tokens": 5000}}
    after = {"request": TWO_LONG, "usage": {"input_tokens": 5002, "cache_read_input_tokens": 0}}
    answer = valid(lore("diff-prefix", put("r.jsonl", line, after), "--json", "--no-tokens").json, "diff-prefix")
    assert answer["billed"] == {"uncached_tokens": 5002, "read_tokens": 0, "write_tokens": None, "output_tokens": None}
    assert [(cause["code"], cause["lost_tokens"], cause["tokens"]) for cause in answer["causes"]] == [
        ("LORE301", 5000, "recorded")
    ]


# check


def test_check_rejects_impossible_budget():
    assert lore("check", put("s.jsonl", session()), "--min-reuse", "2").code == 2
    put("lore.toml", b"[check]\nmax_breaks=-1\n")
    assert lore("check", "s.jsonl").code == 2


def test_stricter_reuse_budget_of_settings_and_option_holds():
    put("w.jsonl", *WASTE)
    put("lore.toml", b"[check]\nmin_reuse=1.0\n")
    assert "LORE401" in lore("check", "w.jsonl", "--min-reuse", "0").out
    put("other.toml", b"[check]\nmin_reuse=0\n")
    assert "LORE401" not in lore("check", "w.jsonl", "--config", "other.toml").out
    assert "LORE401" in lore("check", "w.jsonl", "--config", "other.toml", "--min-reuse", "1.0").out


@pytest.mark.parametrize(("settings", "lines"), [
    ("[check]\nselect = ['LORE2']\nmax_breaks = 0\nmax_lost_tokens = 0\n", [3]),
    ("[[check.per_path]]\npath = 'x'\n[[check.per_path]]\npath = 'w.jsonl'\nmax_breaks = 0\nselect = ['LORE2']", [5]),
    ("check.max_breaks = 0\n", [1]),
    ("[check]\nignore = ['LORE101']\nmax_breaks = 0\n", []),
    ("[check]\nmax_breaks = 1\n", []),
])  # fmt: skip
def test_selection_leaves_budgets_on_at_their_line(settings, lines):
    put("w.jsonl", *WASTE)
    put("lore.toml", settings.encode())
    findings = lore("check", "w.jsonl", "--json").json["findings"]
    assert [(row["path"], row["line"]) for row in findings if row["code"] in ("LORE402", "LORE403")] == [
        ("lore.toml", line) for line in lines
    ]
    lore("check", "w.jsonl", "--baseline", "b.json", "--update-baseline")
    assert lore("check", "w.jsonl", "--baseline", "b.json").code == 0


@pytest.mark.parametrize(("settings", "options", "codes"), [
    ("", ["--ignore", "LORE101"], ["LORE401"]),
    ("", ["--select", "LORE4"], ["LORE401"]),
    ("[[check.per_path]]\npath='w.jsonl'\nignore=['LORE101']\n", [], ["LORE401"]),
    ("", ["--ignore", "LORE101", "--ignore", "LORE401"], []),
    ("[[check.exempt]]\ncode='LORE101'\npath='w.jsonl'\nreason='old'\n", [], []),
])  # fmt: skip
def test_reuse_budget_holds_for_ignored_causes(settings, options, codes):
    put("w.jsonl", *WASTE)
    put("lore.toml", settings.encode())
    result = lore("check", "w.jsonl", "--min-reuse", "1.0", "--json", *options)
    errors = [finding["code"] for finding in result.json["findings"] if finding["severity"] == "error"]
    assert (errors, result.code) == (codes, 1 if codes else 0)


def test_check_exits_1_for_waste_despite_unreadable_file():
    put("d/w.jsonl", *WASTE)
    Path("d/broken.jsonl").symlink_to("broken.jsonl")
    assert lore("check", "d").code == 1


def date_and_tool(turn: int) -> dict:
    """Return a turn whose system prompt has another date, and from the second turn on one tool more."""
    tools = [{"name": name, "description": LONG, "input_schema": {}} for name in ("a", "b")[: min(turn, 2)]]
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": f"Today is 2026-01-0{turn}. {LONG}", **mark}]
    messages = [{"role": role, "content": f"{role} {at}"} for at in range(turn) for role in ("user", "assistant")]
    usage = {"input_tokens": 9, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 20_000, "output_tokens": 9}
    request = {"model": "claude-sonnet-4-5", "tools": tools, "system": system, "messages": messages[:-1]}
    return {"request": request, "usage": usage}


def test_date_keeps_its_place_beside_an_added_tool():
    put("r.jsonl", *map(date_and_tool, (1, 2, 3)))
    findings = [finding for finding in lore("check", "r.jsonl", "--json").json["findings"] if finding["is_break"]]
    places = {(finding["code"], finding["turn"]): (finding["section"], finding["json_path"]) for finding in findings}
    assert places["LORE101", 2] == places["LORE101", 3] == ("system", "system[0].text")
    assert places["LORE103", 2] == ("tools", "tools[1]")
    assert "LORE101 date-in-prefix in turns 2, 3 at system[0].text" in lore("check", "r.jsonl").out


@pytest.mark.parametrize("ignored", [(), ("--ignore", "LORE101")])
def test_losses_of_findings_add_up_to_the_summary(ignored):
    put("r.jsonl", *map(date_and_tool, (1, 2)))
    answer = lore("check", "r.jsonl", *ignored, "--json").json
    lost = [(finding["lost_tokens"], finding["lost_bytes"]) for finding in answer["findings"] if finding["is_break"]]
    assert answer["summary"]["lost_tokens"] == sum(tokens or 0 for tokens, _ in lost) > 0
    assert lost[1:] == ([] if ignored else [(None, None)])
    written = lore("check", "r.jsonl", *ignored).out
    assert written.count("its loss is counted with another cause of the same cache break") == len(lost) - 1


def test_check_format_option_overrides_content():
    assert lore("check", put("s.jsonl", session()), "--format", "bodies").code != 0
    assert (
        lore("check", put("t.jsonl", b"{nope}\n" + session()), "--format", "lore", "--json").json["summary"]["turns"]
        == 2
    )


def test_rotated_credential_is_masked_everywhere():
    bodies = [body(f"token ghp_{'a1B2' * 8}{end} end", "x", system="S") for end in ("Q", "Z")]
    put("w.jsonl", *bodies)
    runs = [lore("check", "w.jsonl"), lore("check", "w.jsonl", "--json"), lore("diff-prefix", "w.jsonl")]
    assert all("a1B2" not in result.out + result.err for result in runs)


# fold


def test_fold_reports_problems():
    result = lore("fold", put("s.jsonl", session(record("novelty"))), "--json")
    assert [problem["code"] for problem in valid(result.json, "fold")["problems"]] == ["LORE203"]
    assert "LORE203 s.jsonl:8" in lore("fold", "s.jsonl").out


# colour


@pytest.mark.parametrize(
    "command", [["fold", "s.jsonl"], ["check", "s.jsonl"], ["diff-prefix", "s.jsonl", "--no-tokens"]]
)
@pytest.mark.parametrize(("args", "environment", "coloured"), [
    ([], {}, False),
    (["--color"], {}, True),
    (["--color"], {"NO_COLOR": "1"}, True),
    ([], {"FORCE_COLOR": "1"}, True),
    ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    (["--no-color"], {"FORCE_COLOR": "1"}, False),
])  # fmt: skip
def test_colour_follows_flag_then_environment(monkeypatch, command, args, environment, coloured):
    put("s.jsonl", compacted())
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if command[0] == "check" and args:  # it has no flag
        pytest.skip("the environment decides")
    assert ("\x1b[" in lore(*command, *args).out) is coloured


# explain, schema


@each([*CODES])
def test_explain_for_audience_omits_other_part(code):
    page, author, user = (lore("explain", code, *options).out for options in ([], FOR_AUTHOR, FOR_USER))
    head, part, sections = page.partition("### Agent author\n")
    steps, other, last = sections.partition("### User\n")
    assert author == head + part + steps.rstrip("\n") + "\n"
    assert user == head + other + last


@pytest.mark.parametrize(
    "word", ["re-billed", "waste", "expected", "no certain cause", "share read", "chain", "at least"]
)
def test_explain_defines_words_of_the_output(word):
    result = lore("explain", word)
    assert (result.code, result.out.startswith(f"- **{word}**: ")) == (0, True)
    assert result.out.count("**") == 2


def test_list_of_codes_uses_words_of_the_output():
    listed = lore("explain").out
    assert "unattributable" not in listed
    assert "LORE101  waste             agent author  date-in-prefix" in listed


@pytest.mark.parametrize(("code", "kind"), [("LORE201", "recording"), ("LORE404", "settings"), ("LORE185", "request")])
def test_explain_names_kind_of_code_without_break(code, kind):
    assert re.search(rf"^{code} +{kind} ", lore("explain").out, re.MULTILINE)
    assert f"Kind: {kind}" in lore("explain", code).out.replace("\n", " ")


def test_explain_accepts_a_code_by_its_number():
    assert lore("explain", "101").out == lore("explain", "LORE101").out != ""


@pytest.mark.parametrize("beginning", ["LORE15", "lore15", "15"])
def test_explain_lists_codes_that_begin_so(beginning):
    heading, *rows = lore("explain", beginning).out.splitlines()
    assert heading.startswith("code ")
    assert rows == [row for row in lore("explain").out.splitlines() if row.startswith("LORE15")] != []


def test_explain_of_a_word_names_codes_with_it():
    assert lore("explain", "pauses").out == lore("explain", "LORE128").out
    assert "tool-result-rewritten" in lore("explain", "cleared").out
    assert "LORE128" not in lore("explain", "s").out


@pytest.mark.parametrize(
    ("args", "hint"),
    [(["LORE101", "--for", "me"], "--for author or --for user"), (["--for", "user"], "lore explain CODE --for user")],
)
def test_explain_rejects_unknown_audience_or_missing_code(args, hint):
    result = lore("explain", *args)
    assert result.code == 2
    assert hint in result.err


def test_every_schema_is_valid_json_schema():
    """A definition that many schemas have is checked once."""
    parts = {}
    for name in schemas():
        schema = json.loads(lore("schema", name).out)
        assert schema["title"] == f"lore {name}"
        definitions = schema.pop("$defs", {})
        parts.update((json.dumps(part), part) for part in (schema, *definitions.values()))
    for part in parts.values():
        jsonschema.Draft202012Validator.check_schema(part)


def test_check_counts_compaction_seen_in_requests():
    path = str(Path(__file__).parents[2] / "fixtures" / "causes" / "LORE125" / "positive.jsonl")
    answer = lore("check", path, "--json").json
    assert [finding["code"] for finding in answer["findings"]] == ["LORE125"]
    assert answer["summary"]["compactions"] == 1


class Base(Struct, kw_only=True):
    """Base."""

    name: str  # of the file


class Row(Base):
    """A row.

    More.
    """

    count: int = 0
    # the first
    # of two lines
    size: int | None = None
    base: Base | None = None  # a nested struct


def test_schema_describes_fields_by_their_comments():
    parts = json_schema(Row)["$defs"]
    described = {name: field.get("description") for name, field in parts["Row"]["properties"].items()}
    assert described == {
        "count": None, "size": "the first of two lines", "base": "a nested struct", "name": "of the file",
    }  # fmt: skip
    assert parts["Row"]["description"] == "A row.\n\nMore."
    assert parts["Base"]["properties"]["name"]["description"] == "of the file"
