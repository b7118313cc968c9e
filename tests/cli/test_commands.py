"""Every command and option does what its help says."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from cli.running import compacted, lore, put, session
from helpers.each import each
from helpers.schemas import valid
from lore.cli.about import schemas
from lore.model.codes import CODES
from model.making import assistant, body, dumps, header, log, record, user

ONE, TWO = body("one", model="claude-x"), body("one", assistant("two"), "three", model="claude-x")
WASTE = [body("one", assistant("two"), system=f"Today is 2026-01-0{n}.") for n in (1, 2)]
LONG = "a long request " * 2000  # a bill of 5,000 tokens needs that many bytes at least
FOR_AUTHOR, FOR_USER = ["--for", "author"], ["--for", "user"]
ONE_LONG, TWO_LONG = body(LONG, model="claude-x"), body(LONG, assistant("two"), "three", model="claude-x")


# assemble


def texts(ran):
    return [block["text"] for message in ran.json["messages"] for block in message["content"]]


def test_assemble_writes_the_body_of_the_last_turn():
    ran = lore("assemble", put("s.jsonl", session()))
    assert (ran.code, ran.out.count("\n"), ran.json["model"]) == (0, 1, "gpt-4o")
    assert texts(ran)[:3] == ["first", "answer", "second"]


@pytest.mark.parametrize(
    "args", [("s.jsonl", "--turn", "1"), ("s.jsonl#1",), ("s.jsonl#main:1",), ("s.jsonl#1", "--turn", "1")]
)
def test_assemble_takes_a_turn_by_option_or_name(args):
    put("s.jsonl", session())
    assert texts(lore("assemble", *args)) == ["first", "[current-time]\nnoon"]


@pytest.mark.parametrize(
    "args", [("s.jsonl#1", "--turn", "2"), ("s.jsonl", "--turn", "9"), ("s.jsonl#side:1",), ("s.jsonl#0",)]
)
def test_assemble_refuses_turns_that_are_not_there_or_said_twice(args):
    put("s.jsonl", session())
    ran = lore("assemble", *args)
    assert (ran.code, "hint: " in ran.err) == (2, True)


def test_assemble_takes_a_dialect_and_a_tail_policy():
    put("s.jsonl", session())
    chat = lore("assemble", "s.jsonl", "--dialect", "openai-chat")
    assert (chat.json["messages"][0]["role"], chat.json["messages"][-1]["role"]) == ("system", "system")
    inside = lore("assemble", "s.jsonl", "--dialect", "openai-chat", "--tail", "user")
    assert inside.json["messages"][-1]["role"] == "user"


@pytest.mark.parametrize(
    "args", [("--dialect", "klingon"), ("--tail", "middle"), ("--format", "word"), ("--config", "none.toml")]
)
def test_unknown_words_are_usage_errors(args):
    ran = lore("assemble", put("s.jsonl", session()), *args)
    assert (ran.code, ran.err.startswith("error: ")) == (2, True)


def test_the_tail_policy_can_be_configured():
    put("s.jsonl", session())
    put("lore.toml", b"[assemble]\ntail='user'\n")
    assert lore("assemble", "s.jsonl", "--dialect", "openai-chat").json["messages"][-1]["role"] == "user"
    put("other.toml", b"[assemble]\ntail='system'\n")
    ran = lore("assemble", "s.jsonl", "--dialect", "openai-chat", "--config", "other.toml")
    assert ran.json["messages"][-1]["role"] == "system"


def test_assemble_writes_a_recorded_request_in_its_layout():
    ran = lore("assemble", put("b.json", ONE))
    assert ran.code == 0
    assert {name: ran.json[name] for name in ("model", "max_tokens") if name in ONE} == {
        name: ONE[name] for name in ("model", "max_tokens") if name in ONE
    }
    assert [message["role"] for message in ran.json["messages"]] == [message["role"] for message in ONE["messages"]]


def test_assemble_says_with_v_what_was_written():
    ran = lore("assemble", put("s.jsonl", session()), "-v")
    assert "segments" in ran.err
    assert "dialect anthropic" in ran.err


def test_assemble_tells_problems_and_what_was_left_out_on_standard_error():
    thinking = {"type": "assistant_message", "uuid": "a9", "blocks": [{"type": "thinking", "text": "hm"}]}
    data = session(record("append", item=thinking), record("novelty"), record("turn_started", turn=3))
    ran = lore("assemble", put("s.jsonl", data), "--dialect", "openai-chat")
    assert ran.code == 0
    assert "1 thinking block left out" in ran.err
    assert "LORE203 s.jsonl:9" in ran.err


def test_a_log_without_turns_is_assembled_as_it_stands():
    ran = lore("assemble", put("s.jsonl", log(header(), record("append", item=user("u", "x")))))
    assert texts(ran) == ["x"]


def test_assembled_content_is_verbatim_where_reports_mask():
    secret = "ghp_" + "a1B2" * 9
    put("s.jsonl", log(header(), record("append", item=user("u", secret)), record("turn_started", turn=1)))
    assert secret in lore("assemble", "s.jsonl").out
    assert secret not in lore("fold", "s.jsonl").out + lore("fold", "s.jsonl", "--json").out


# diff-prefix


def test_two_bodies_are_compared():
    ran = lore("diff-prefix", put("a.json", ONE), put("b.json", TWO), "--json")
    found = valid(ran.json, "diff-prefix")
    assert (ran.code, found["relation"], found["reuse_ratio"], found["divergence"]) == (0, "extension", 1.0, None)
    assert found["prompt"]["tokenizer"] == "o200k_base"
    assert found["prompt"]["left_tokens"] == found["prompt"]["common_prefix_tokens"] > 0
    assert found["file"]["left_bytes"] == Path("a.json").stat().st_size
    assert (found["left"]["format"], found["left"]["dialect"], found["left"]["fidelity"]) == (
        "bodies",
        "anthropic",
        "wire",
    )


def test_a_difference_is_described():
    found = valid(lore("diff-prefix", put("a", WASTE[0]), put("b", WASTE[1]), "--json").json, "diff-prefix")
    assert [cause["code"] for cause in found["causes"]] == ["LORE101"]
    assert (found["divergence"]["path"], found["divergence"]["offset"]) == ("system", 19)
    assert found["causes"][0]["tokens"] == "estimated"  # as `check` says: no bill, so from bytes
    prompt = found["prompt"]
    assert prompt["common_prefix_bytes"] == found["divergence"]["prompt_offset"] == 19
    assert found["reuse_ratio"] == pytest.approx(19 / prompt["left_bytes"], abs=1e-6)
    assert found["causes"][0]["lost_bytes"] == prompt["left_bytes"] - 19
    assert prompt["canonical_common_prefix_bytes"] > 19


def test_without_tokens_the_counts_are_null():
    ran = lore("diff-prefix", put("a", WASTE[0]), put("b", WASTE[1]), "--json", "--no-tokens")
    found = valid(ran.json, "diff-prefix")
    names = ("left_tokens", "right_tokens", "common_prefix_tokens", "tokenizer")
    assert [found["prompt"][name] for name in names] == [None] * 4
    assert found["causes"][0]["tokens"] == "estimated"


def test_a_person_reads_a_bar_and_the_cause():
    ran = lore("diff-prefix", put("a", WASTE[0]), put("b", WASTE[1]))
    assert "reused" in ran.out
    assert "LORE101 date-in-prefix (waste)" in ran.out
    assert "\x1b" not in ran.out


@pytest.mark.parametrize(("limit", "code"), [("0.0", 0), ("0.1", 0), ("0.99", 1), ("1", 1)])
def test_fail_under_exits_one_where_less_is_reused(limit, code):
    put("a", WASTE[0])
    put("b", WASTE[1])
    assert lore("diff-prefix", "a", "b", "--no-tokens", "--fail-under", limit).code == code


@pytest.mark.parametrize("limit", ["1.1", "-0.5", "nan", "much"])
def test_fail_under_wants_a_share(limit):
    assert lore("diff-prefix", put("a", ONE), put("b", TWO), "--fail-under", limit).code == 2


def test_any_two_files_are_compared_by_their_bytes():
    ran = lore(
        "diff-prefix", put("a.bin", b"\x00\x01same"), put("b.bin", b"\x00\x01some"), "--json", "--fail-under", "1"
    )
    found = valid(ran.json, "diff-prefix")
    assert (ran.code, found["file"]["common_prefix_bytes"]) == (0, 3)
    assert [found[name] for name in ("prompt", "divergence", "billed", "relation", "reuse_ratio")] == [None] * 5


def test_every_pair_of_a_session_is_a_line():
    ran = lore("diff-prefix", put("s.jsonl", compacted()), "--json")
    found = [valid(one, "diff-prefix") for one in ran.lines]
    assert [(one["chain"], one["turn"], one["relation"]) for one in found] == [
        ("main", 2, "extension"),
        ("main", 3, "diverged"),
    ]
    assert [cause["code"] for cause in found[1]["causes"]] == ["LORE125"]
    assert found[0]["file"] is None
    assert found[0]["prompt"]["left_tail_bytes"] > 0


def test_turns_of_one_session_can_be_named():
    put("s.jsonl", compacted())
    found = lore("diff-prefix", "s.jsonl#1", "s.jsonl#main:3", "--json", "--no-tokens").json
    assert [cause["code"] for cause in found["causes"]] == ["LORE125"]
    assert (found["left"]["name"], found["file"]) == ("s.jsonl#1", None)


def test_a_file_that_exists_under_the_whole_name_wins():
    put("s.jsonl", ONE)
    put("s.jsonl#1", TWO)
    assert (
        lore("diff-prefix", "s.jsonl#1", "s.jsonl#1", "--json", "--no-tokens").json["prompt"]["common_prefix_segments"]
        == 7
    )


def test_one_side_with_several_turns_stands_for_its_last():
    put("many.jsonl", ONE, TWO)
    found = lore("diff-prefix", put("a.json", TWO), "many.jsonl", "--json", "--no-tokens").json
    assert found["relation"] == "identical"


@pytest.mark.parametrize("args", [("b.json",), ("s.jsonl#1",), ("a.json", "b.json#7"), ("x.bin#1", "b.json")])
def test_what_cannot_be_compared_is_a_usage_error(args):
    put("a.json", ONE)
    put("b.json", TWO)
    put("x.bin", b"\x00")
    put("s.jsonl", session())
    assert lore("diff-prefix", *args).code == 2


def test_a_dialect_can_be_forced():
    found = lore("diff-prefix", put("a", ONE), put("b", TWO), "--json", "--no-tokens", "--dialect", "openai-chat").json
    assert found["left"]["dialect"] == "openai-chat"


def test_a_bill_and_a_verdict_travel_with_the_pair():
    line = {"request": ONE_LONG, "usage": {"input_tokens": 1, "cache_creation_input_tokens": 5000}}
    after = {"request": TWO_LONG, "usage": {"input_tokens": 5002, "cache_read_input_tokens": 0}}
    found = valid(lore("diff-prefix", put("r.jsonl", line, after), "--json", "--no-tokens").json, "diff-prefix")
    assert found["billed"] == {"uncached_tokens": 5002, "read_tokens": 0, "write_tokens": None, "output_tokens": None}
    assert [(cause["code"], cause["lost_tokens"], cause["tokens"]) for cause in found["causes"]] == [
        ("LORE301", 5000, "recorded")
    ]


# check


def test_a_clean_session_passes():
    ran = lore("check", put("s.jsonl", session()), "--json")
    found = valid(ran.json, "check")
    assert (ran.code, found["findings"], found["problems"]) == (0, [], [])
    assert {name: found["summary"][name] for name in ("files", "sessions", "chains", "turns", "pairs", "breaks")} == {
        "files": 1, "sessions": 1, "chains": 1, "turns": 2, "pairs": 1, "breaks": 0,
    }  # fmt: skip


def test_waste_exits_one():
    ran = lore("check", put("w.jsonl", *WASTE), "--json")
    found = valid(ran.json, "check")
    assert (ran.code, [one["code"] for one in found["findings"]]) == (1, ["LORE101"])
    assert (found["summary"]["waste"], found["findings"][0]["line"], found["findings"][0]["path"]) == (1, 2, "w.jsonl")


def test_expected_breaks_pass_and_are_shown_with_v():
    put("s.jsonl", compacted())
    plain, verbose = lore("check", "s.jsonl"), lore("check", "s.jsonl", "-v")
    assert (plain.code, "LORE125" in plain.out, "LORE125" in verbose.out) == (0, False, True)
    assert "1 cache break: 0 waste, 0 unexplained, 1 expected" in plain.out
    assert "s.jsonl" in verbose.err


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--min-reuse", "0.99"), "LORE401"),
        (("--max-breaks", "0"), "LORE402"),
        (("--max-lost-tokens", "0"), "LORE403"),
    ],
)
def test_budgets_are_held(args, code):
    ran = lore("check", put("w.jsonl", *WASTE), *args, "--json")
    assert code in [one["code"] for one in valid(ran.json, "check")["findings"]]
    assert ran.code == 1


def test_budgets_that_are_kept_do_not_fail():
    ran = lore("check", put("s.jsonl", session()), "--min-reuse", "1", "--max-breaks", "0", "--max-lost-tokens", "0")
    assert ran.code == 0


@pytest.mark.parametrize("args", [("--min-reuse", "2"), ("--max-breaks", "-1"), ("--max-lost-tokens", "-1")])
def test_budgets_that_make_no_sense_are_usage_errors(args):
    assert lore("check", put("s.jsonl", session()), *args).code == 2


def test_options_come_before_the_configuration():
    put("w.jsonl", *WASTE)
    put("lore.toml", b"[check]\nmax_breaks=0\n")
    assert "LORE402" in lore("check", "w.jsonl").out
    assert "LORE402" not in lore("check", "w.jsonl", "--max-breaks", "5").out
    put("other.toml", b"")
    assert "LORE402" not in lore("check", "w.jsonl", "--config", "other.toml").out


def test_a_folder_is_walked_and_what_is_no_recording_is_counted():
    put("d/a.jsonl", session())
    put("d/sub/b.jsonl", compacted())
    put("d/notes.txt", b"hello\n")
    put("d/.hidden.jsonl", *WASTE)
    ran = lore("check", "d", "--json")
    summary = valid(ran.json, "check")["summary"]
    assert (ran.code, summary["files"], summary["skipped"], summary["compactions"]) == (0, 2, 1, 1)
    assert {one["path"] for one in ran.json["findings"]} == {"d/sub/b.jsonl"}


def test_this_folder_is_the_default():
    put("a.jsonl", session())
    assert lore("check", "--json").json["summary"]["files"] == 1


def test_a_folder_without_recordings_exits_two():
    put("d/notes.txt", b"hello\n")
    assert lore("check", "d").code == 2


def test_a_file_of_a_folder_that_cannot_be_read_makes_the_run_incomplete():
    put("d/a.jsonl", session())
    Path("d/broken.jsonl").symlink_to("broken.jsonl")
    ran = lore("check", "d", "--json")
    assert (ran.code, "LORE215" in [one["code"] for one in ran.json["findings"]]) == (3, True)


def test_waste_wins_over_incomplete():
    put("d/w.jsonl", *WASTE)
    Path("d/broken.jsonl").symlink_to("broken.jsonl")
    assert lore("check", "d").code == 1


def test_damage_is_a_finding_with_its_line():
    ran = lore("check", put("s.jsonl", session() + b"{nope}\n"), "--json")
    found = valid(ran.json, "check")
    assert [(one["code"], one["line"], one["severity"]) for one in found["findings"]] == [("LORE201", 8, "error")]
    assert (found["problems"][0]["file"], found["problems"][0]["byte"]) == ("s.jsonl", len(session()))
    assert ran.code == 1


def test_a_format_can_be_forced():
    assert lore("check", put("s.jsonl", session()), "--format", "bodies").code != 0
    assert (
        lore("check", put("t.jsonl", b"{nope}\n" + session()), "--format", "lore", "--json").json["summary"]["turns"]
        == 2
    )


def test_a_credential_that_was_rotated_is_shown_nowhere():
    made = [body(f"token ghp_{'a1B2' * 8}{end} end", "x", system="S") for end in ("Q", "Z")]
    put("w.jsonl", *made)
    said = [lore("check", "w.jsonl"), lore("check", "w.jsonl", "--json"), lore("diff-prefix", "w.jsonl")]
    assert all("a1B2" not in ran.out + ran.err for ran in said)


def test_the_same_input_gives_the_same_bytes():
    put("d/w.jsonl", *WASTE)
    put("d/s.jsonl", compacted())
    assert lore("check", "d", "--json") == lore("check", "d", "--json")


# fold


def uuids(ran):
    return [item["uuid"] for item in valid(ran.json, "fold")["timeline"]]


def test_a_session_is_folded():
    ran = lore("fold", put("s.jsonl", compacted()), "--json")
    assert uuids(ran) == ["d", "u2"]
    assert ran.json["pruned"] == ["u1", "a1", "a2"]
    assert ran.json["session"]["chains"] == [{"id": "main", "kind": "main", "turns": 3, "items": 2}]
    assert ran.json["usage"] == {
        "turns": 3, "uncached_tokens": 3, "read_tokens": 0, "write_tokens": 50, "output_tokens": 2,
    }  # fmt: skip


def test_what_was_pruned_can_be_shown():
    assert uuids(lore("fold", put("s.jsonl", compacted()), "--json", "--pruned")) == ["u1", "a1", "a2"]
    assert lore("fold", "s.jsonl", "--pruned").out.startswith("pruned by compaction\n")


def test_everything_can_be_shown_with_the_divider_where_it_came():
    assert uuids(lore("fold", put("s.jsonl", compacted()), "--json", "--unpruned")) == ["u1", "a1", "u2", "a2", "d"]


@pytest.mark.parametrize(("turn", "items"), [("1", ["u1"]), ("2", ["u1", "a1", "u2"]), ("3", ["d", "u2"])])
def test_a_session_can_be_folded_up_to_a_turn(turn, items):
    assert uuids(lore("fold", put("s.jsonl", compacted()), "--json", "--at", turn)) == items


@pytest.mark.parametrize("args", [("--at", "9"), ("--at", "0"), ("--pruned", "--unpruned"), ("--format", "word")])
def test_views_that_do_not_exist_are_usage_errors(args):
    assert lore("fold", put("s.jsonl", session()), *args).code == 2


def test_a_file_of_bodies_is_folded():
    ran = lore("fold", put("b.json", ONE))
    assert (ran.code, "bodies" in ran.out) == (0, True)


def test_a_person_reads_a_line_an_item():
    ran = lore("fold", put("s.jsonl", compacted()))
    assert ran.out.splitlines()[0].startswith("──── compaction (manual), 3 items pruned")
    assert "session s-1 (lore, reconstructed): 2 items, 3 items pruned, 3 turns, 1 chain" in ran.out


def test_problems_of_a_fold_are_told():
    ran = lore("fold", put("s.jsonl", session(record("novelty"))), "--json")
    assert [one["code"] for one in valid(ran.json, "fold")["problems"]] == ["LORE203"]
    assert "LORE203 s.jsonl:8" in lore("fold", "s.jsonl").out


# colour


@pytest.mark.parametrize(
    "command", [["fold", "s.jsonl"], ["check", "s.jsonl"], ["diff-prefix", "s.jsonl", "--no-tokens"]]
)
@pytest.mark.parametrize(
    ("args", "environment", "coloured"),
    [
        ([], {}, False),
        (["--color"], {}, True),
        (["--color"], {"NO_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--no-color"], {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_follows_the_flag_and_the_environment(monkeypatch, command, args, environment, coloured):
    put("s.jsonl", compacted())
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in lore(*command, *args).out) is coloured


# explain, schema


@each([*CODES])
def test_every_code_has_a_page_that_begins_with_its_name(code):
    page = resources.files("lore.judge").joinpath("pages", f"{code}.md").read_text("utf-8")
    assert code in page.splitlines()[0]
    assert CODES[code].name in page.splitlines()[0]
    assert lore("explain", code).out.strip() == page.strip()


def test_there_is_no_page_for_a_code_that_does_not_exist():
    pages = {page.name.removesuffix(".md") for page in resources.files("lore.judge").joinpath("pages").iterdir()}
    assert pages - {"README"} <= set(CODES)


def test_a_page_is_found_by_name_and_in_any_case():
    page = lore("explain", "LORE101").out
    assert lore("explain", "lore101").out == lore("explain", "date-in-prefix").out == page


def test_without_a_code_all_are_listed_with_kind_and_actor():
    rows = [[code, row.kind, row.actor, row.name] for code, row in CODES.items()]
    assert [line.split() for line in lore("explain").out.splitlines()] == rows


@each([*CODES])
def test_a_page_for_one_reader_leaves_out_the_others_part_alone(code):
    page, author, user = (lore("explain", code, *options).out for options in ([], FOR_AUTHOR, FOR_USER))
    head, part, rest = page.partition("### If you write the agent\n")
    steps, other, last = rest.partition("### If you run it\n")
    assert author == head + part + steps.rstrip("\n") + "\n"
    assert user == head + other + last


@pytest.mark.parametrize(
    ("args", "hint"),
    [(["LORE101", "--for", "me"], "readers: author, user"), (["--for", "user"], "lore explain CODE --for user")],
)
def test_advice_for_nobody_or_of_no_page_is_refused(args, hint):
    ran = lore("explain", *args)
    assert ran.code == 2
    assert hint in ran.err


@each([*schemas()])
def test_every_result_has_a_schema_that_is_one(name):
    schema = json.loads(lore("schema", name).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == f"lore {name}"


def test_without_a_name_the_schemas_are_listed():
    assert lore("schema").out.split() == list(schemas())


def test_a_schema_refuses_what_is_no_result():
    with pytest.raises(jsonschema.ValidationError):
        valid({"summary": 3}, "check")


def test_results_state_their_schema_version():
    assert lore("check", put("s.jsonl", session()), "--json").json["schema"] == 2
    assert lore("fold", "s.jsonl", "--json").json["schema"] == 2
    assert lore("diff-prefix", "s.jsonl", "--json", "--no-tokens").json["schema"] == 2


def test_claude_code_sessions_can_be_folded_assembled_and_judged():
    lines = [
        {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "x"}},
        {"type": "assistant", "uuid": "a", "parentUuid": "u", "sessionId": "s", "message": {
            "id": "r", "model": "claude-x", "content": [{"type": "text", "text": "y"}], "usage": {"input_tokens": 1}}},
    ]  # fmt: skip
    put("c.jsonl", b"".join(dumps(line) + b"\n" for line in lines))
    assert lore("fold", "c.jsonl", "--json").json["session"]["format"] == "claude-code"
    made = lore("assemble", "c.jsonl")
    assert made.json["messages"] == [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
    assert "the system prompt and the tools are not in this recording: give --system and --tools" in made.err
    assert lore("check", "c.jsonl").code == 0


def test_a_compaction_that_only_requests_show_is_counted():
    """A capture with three of them, each a note, closed with "0 compactions"."""
    path = str(Path(__file__).parents[2] / "fixtures" / "causes" / "LORE125" / "positive.jsonl")
    found = lore("check", path, "--json").json
    assert [one["code"] for one in found["findings"]] == ["LORE125"]
    assert found["summary"]["compactions"] == 1
