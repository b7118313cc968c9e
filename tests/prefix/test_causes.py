"""Causes: each code that a pair of prompts can show has a pair that shows it, and one that does not."""

from __future__ import annotations

import json

import msgspec
import pytest

from lore.model.differences import BetasChanged, ParameterChanged, ResultSentEarly, ToolsChanged
from lore.model.evidence import ModelChanged
from lore.model.state import Change
from lore.model.turn import Call
from lore.prefix.causes import find_causes, recorded_causes
from lore.prefix.likeness import drop_unrendered
from lore.prefix.overlap import compare_prompts, count_cached_segments
from model.making import assistant, body, dumps, parsed

A = {"name": "a", "description": "da", "input_schema": {"type": "object"}}
B = {"name": "b", "description": "db", "input_schema": {"type": "object"}}
CACHE_CONTROL = {"type": "ephemeral"}
EXPECTED = ("LORE119", "LORE125", "LORE143", "LORE144", "LORE145")


def why(left, right, *changes, dialect="anthropic"):
    mine, theirs = parsed(left, dialect), parsed(right, dialect)
    return find_causes(mine, theirs, compare_prompts(mine, theirs), [Change(code, code) for code in changes])


def codes(left, right, *changes, dialect="anthropic"):
    return [cause.code for cause in why(left, right, *changes, dialect=dialect)]


def block(text, **fields):
    return {"role": "user", "content": [{"type": "text", "text": text, **fields}]}


def result(content, first=False):
    made = {"type": "tool_result", "tool_use_id": "c", "content": content}
    if first:
        made = {"content": content, "tool_use_id": "c", "type": "tool_result"}
    return {"role": "user", "content": [made]}


def used(value):
    return {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": value}]}


def tool_message(content):
    return {"role": "tool", "tool_call_id": "c", "content": content}


POSITIVE = {
    "LORE100 edited": ("LORE100", body("one", "x", "y"), body("one", "z", "y")),
    "LORE127 edited first": ("LORE127", body("one", "x"), body("two", "x")),
    "LORE100 shrunk": ("LORE100", body("one", assistant("two"), "x"), body("one")),
    "LORE100 role": ("LORE100", body("one", "x"), body("one", assistant("x"))),
    "LORE102 reordered": ("LORE102", body("x", tools=[A, B]), body("x", tools=[B, A])),
    "LORE103 added": ("LORE103", body("x", tools=[A]), body("x", tools=[A, B])),
    "LORE103 removed": ("LORE103", body("x", tools=[A, B]), body("x", tools=[B])),
    "LORE103 all gone": ("LORE103", body("x", tools=[A]), body("x")),
    "LORE104 description": ("LORE104", body("x", tools=[A, B]), body("x", tools=[A, {**B, "description": "new"}])),
    "LORE105 keys": (
        "LORE105",
        body(used({"a": 1, "b": 2})),
        body(used({"b": 2, "a": 1})),
    ),
    "LORE105 envelope": (
        "LORE105",
        body({"role": "user", "name": "n", "content": "x"}),
        body({"name": "n", "role": "user", "content": "x"}),
    ),
    "LORE106 escapes": ("LORE106", json.dumps(body("é")).encode(), dumps(body("é"))),
    "LORE106 number": (
        "LORE106",
        dumps(body(block("x", n=1.5))),
        dumps(body(block("x", n=1.5))).replace(b"1.5", b"1.50"),
    ),
    "LORE106 space": ("LORE106", dumps(body(block("x"))), dumps(body(block("x"))).replace(b':"text"', b': "text"')),
    "LORE108 uuid": (
        "LORE108",
        body("x", system="run 123e4567-e89b-12d3-a456-426614174000."),
        body("x", system="run 123e4567-e89b-12d3-a456-426614174999."),
    ),
    "LORE108 path": ("LORE108", body("x", system="in /tmp/abc.1 now"), body("x", system="in /tmp/xyz.2 now")),
    "LORE108 pid": ("LORE108", body("x", system="pid=4711 runs"), body("x", system="pid=815 runs")),
    "LORE108 pid on its own line": ("LORE108", body("x", system="env\npid: 4711"), body("x", system="env\npid: 815")),
    "LORE109 reminder": (
        "LORE109",
        body("x <total_tokens>1000 left</total_tokens>", "y"),
        body("x <total_tokens>9 left</total_tokens>", "y"),
    ),
    "LORE109 words": ("LORE109", body("you have 12,345 tokens left", "y"), body("you have 12 tokens remaining", "y")),
    "LORE112 shape": ("LORE112", body("x"), body(block("x"))),
    "LORE117 result": ("LORE117", body("a", result("long")), body("a", result("short"))),
    "LORE117 type last": (
        "LORE117",
        body("a", result("l" * 500, first=True)),
        body("a", result("s" * 500, first=True)),
    ),
    "LORE119 model": ("LORE119", body("x", model="m"), body("x", model="n")),
    "LORE146 behind": (
        "LORE146",
        body(block("a", cache_control=CACHE_CONTROL), "volatile"),
        body(block("a", cache_control=CACHE_CONTROL), "changed"),
    ),
}  # fmt: skip
NEGATIVE = {
    "LORE100 covered": ("LORE100", body("one"), body("one", "x")),
    "LORE102 the same order": ("LORE102", body("x", tools=[A, B]), body("y", tools=[A, B])),
    "LORE103 a new definition": ("LORE103", body("x", tools=[A]), body("x", tools=[{**A, "description": "new"}])),
    "LORE104 a respelled definition": (
        "LORE104",
        dumps(body("x", tools=[A])),
        dumps(body("x", tools=[A])).replace(b'"da"', b'"d\\u0061"'),
    ),
    "LORE105 another value": ("LORE105", body(block("a", x=1)), body(block("b", x=1))),
    "LORE106 another content": ("LORE106", body("é"), body("e")),
    "LORE108 another word": ("LORE108", body("x", system="run fast"), body("x", system="run slow")),
    "LORE101 another number": ("LORE101", body("x", system="take 12 apples"), body("x", system="take 13 apples")),
    "LORE101 a date and a word": (
        "LORE101",
        body("x", system="2026-01-01 is good"),
        body("x", system="2026-01-02 is bad"),
    ),
    "LORE109 another count": ("LORE109", body("12 tokens used up", "y"), body("13 tokens used up", "y")),
    "LORE112 another text": ("LORE112", body("x"), body(block("y"))),
    "LORE117 a text about results": ("LORE117", body('a "tool_result" b'), body('a "tool_result" c')),
    "LORE117 a result that became a text": ("LORE117", body("a", result("x")), body("a", block("x y z"))),
    "LORE119 the same model": ("LORE119", body("x", model="m"), body("y", model="m")),
    "LORE146 before the breakpoint": (
        "LORE146",
        body("a", block("b", cache_control=CACHE_CONTROL)),
        body("A", block("b", cache_control=CACHE_CONTROL)),
    ),
}


@pytest.mark.parametrize(("code", "left", "right"), POSITIVE.values(), ids=POSITIVE)
def test_the_code_is_the_cause(code, left, right):
    assert codes(left, right) == [code]


@pytest.mark.parametrize(("code", "left", "right"), NEGATIVE.values(), ids=NEGATIVE)
def test_the_code_is_not_the_cause(code, left, right):
    assert code not in codes(left, right)


DATES = [
    ("Today is 2026-01-01.", "Today is 2026-01-02."),
    ("At 2026-01-01T10:00:00Z now", "At 2026-01-01T10:00:01.123+01:00 now"),
    ("It is Monday", "It is Tuesday"),
    ("It is Wed", "It is Thursday"),
    ("Jan 3, 2026", "February 14, 2026"),
    ("on 1/2/2026 we", "on 12/31/26 we"),
    ("at 9:05 AM sharp", "at 11:45 PM sharp"),
    ("now 1767225600.", "now 1767225601000."),
    ("Today:\n2026-01-01", "Today:\n2026-01-02"),
    ("Today:\nMonday", "Today:\nFriday"),
    ("Clock:\n10:30", "Clock:\n10:31"),
    ("Clock:\t10:30", "Clock:\t10:31"),
    ("Date:\nJanuary 3", "Date:\nJanuary 4"),
    ("on 22 November 2026 we", "on 23 November 2026 we"),
]


@pytest.mark.parametrize(("left", "right"), DATES)
def test_a_date_or_time_in_the_prefix_is_named(left, right):
    assert codes(body("x", system=left), body("x", system=right)) == ["LORE101"]


def test_a_date_in_a_message_is_named_with_its_section_and_place():
    cause = why(body("Today is 2026-01-01.", "y"), body("Today is 2026-01-02.", "y"))[0]
    assert (cause.code, cause.section, cause.position) == ("LORE101", "messages", 2)
    assert (cause.evidence.path, cause.evidence.what) == ("messages[0].content", "date")
    assert "2026-01-01" in cause.evidence.before
    assert "2026-01-02" in cause.evidence.after


@pytest.mark.parametrize("code", EXPECTED[1:])
def test_a_recorded_change_explains_a_break_and_nothing_else(code):
    assert codes(body("a", "x"), body("b", "x"), code) == [code]
    assert codes(body("a"), body("a", "x"), code) == []


def test_only_expected_changes_are_recorded_causes():
    changes = [Change(code, "d") for code in (*EXPECTED, "LORE117")]
    assert [cause.code for cause in recorded_causes(changes)] == list(EXPECTED)


def test_another_model_is_a_cause_even_where_the_bytes_are_equal():
    cause = why(body("a", model="m"), body("a", "x", model="n"))[0]
    assert (cause.code, cause.position) == ("LORE119", 0)
    assert cause.evidence == ModelChanged("m", "n")


def test_cleared_results_have_the_detail_that_was_recorded():
    mine, theirs = parsed(body("a", result("long"))), parsed(body("a", result("gone")))
    found = find_causes(mine, theirs, compare_prompts(mine, theirs), [Change("LORE117", "3 tool results cleared")])
    assert found[0].evidence.cleared == "3 tool results cleared"


def test_the_content_of_a_tool_message_is_a_result():
    left = {"messages": [{"role": "user", "content": "a"}, tool_message("long")]}
    right = {"messages": [{"role": "user", "content": "a"}, tool_message("short")]}
    assert codes(left, right, dialect="openai-chat") == ["LORE117"]


RESULTS = {
    "openai-responses": lambda text: {
        "input": [{"role": "user", "content": "a"}, {"type": "function_call_output", "call_id": "c", "output": text}]
    },
    "gemini": lambda text: {
        "contents": [{"role": "user", "parts": [{"functionResponse": {"name": "n", "response": {"result": text}}}]}]
    },
    "bedrock": lambda text: {
        "messages": [{"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": text}]}}]}]
    },
}


@pytest.mark.parametrize("dialect", RESULTS)
def test_a_result_of_every_shape_is_a_result(dialect):
    make = RESULTS[dialect]
    assert codes(make("long"), make("short"), dialect=dialect) == ["LORE117"]


TOOLS = {
    "openai-responses": lambda name: {"tools": [{"type": "web_search"}, {"type": "function", "name": name}]},
    "gemini": lambda name: {"tools": [{"googleSearch": {}}, {"functionDeclarations": [{"name": name}]}]},
    "bedrock": lambda name: {"toolConfig": {"tools": [{"toolSpec": {"name": name}}]}},
}


@pytest.mark.parametrize("dialect", TOOLS)
def test_the_tools_of_every_shape_are_known_by_their_names(dialect):
    cause = why(TOOLS[dialect]("a"), TOOLS[dialect]("b"), dialect=dialect)[0]
    assert (cause.code, cause.evidence) == ("LORE103", ToolsChanged(added=("b",), removed=("a",)))


def test_a_text_and_a_part_of_it_are_one_content_in_the_responses_api_too():
    parts = [{"type": "input_text", "text": "x"}]
    left, right = ({"input": [{"role": "user", "content": one}]} for one in ("x", parts))
    assert codes(left, right, dialect="openai-responses") == ["LORE112"]


def test_the_tools_of_a_chat_body_are_known_by_their_functions():
    def chat(*names):
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        return {"model": "m", "tools": tools, "messages": [{"role": "user", "content": "x"}]}

    cause = why(chat("a"), chat("a", "b"), dialect="openai-chat")[0]
    assert (cause.code, cause.evidence) == ("LORE103", ToolsChanged(added=("b",)))


def test_spelling_and_content_are_two_causes_each_at_its_place():
    left = json.dumps(body("é", "one", "x"), separators=(",", ":")).encode()
    found = why(left, dumps(body("é", "two", "x")))
    assert [(cause.code, cause.position) for cause in found] == [("LORE106", 2), ("LORE100", 4)]


def test_what_is_wanted_cached_ends_at_the_last_breakpoint_or_with_the_prompt():
    prompt = parsed(body(block("a", cache_control=CACHE_CONTROL), "b"))
    assert count_cached_segments(prompt) == 3
    assert count_cached_segments(msgspec.structs.replace(prompt, auto_breakpoint=True)) == prompt.stable
    assert count_cached_segments(parsed(body("a", "b"))) == 5


def test_a_credential_in_the_evidence_is_masked_whole():
    secret = "ghp_" + "a1B2" * 8
    cause = why(body(f"token {secret}Q end", "y"), body(f"token {secret}Z end", "y"))[0]
    assert "****" in cause.evidence.before
    assert "a1B2" not in cause.evidence.before + cause.evidence.after


@pytest.mark.parametrize("dialect", ["anthropic", "openai-chat", *RESULTS])
def test_a_result_that_came_after_its_call_was_sent_is_named(dialect):
    """The user was told to shorten results when they are created."""
    from lore.fold.step import step  # noqa: PLC0415
    from lore.model.state import FoldedSession  # noqa: PLC0415
    from lore.prompt.assemble import Assembler  # noqa: PLC0415
    from lore.prompt.dialects import DIALECTS  # noqa: PLC0415
    from model.making import append, call, event, started, user  # noqa: PLC0415

    late = event("patch_tool_call", call_id="c", status="completed", output="done")
    state, assembler, prompts = FoldedSession(), Assembler(DIALECTS[dialect]), []
    begin = [append(user("u")), event("turn_started", turn=1), append(call("t", "c", status="running"))]
    for one in (started(), *begin, event("turn_started", turn=2), late, event("turn_started", turn=3)):
        state = step(state, one).state
        if type(one).__name__ == "TurnStarted":
            prompts.append(assembler.assemble(state, state.main()).prompt)
    (cause,) = find_causes(prompts[1], prompts[2], compare_prompts(prompts[1], prompts[2]), ())
    assert (cause.code, type(cause.evidence)) == ("LORE147", ResultSentEarly)


def test_tools_that_are_reordered_and_respelled_have_both_causes():
    """The order alone was told: the spelling, which breaks as surely, was found only when the order was mended."""
    left, right = dumps(body("x", tools=[A, B])), dumps(body("x", tools=[B, A])).replace(b'"db"', b'"d\\u0062"')
    assert codes(left, right) == ["LORE102", "LORE106"]


HEADER = "x-anthropic-billing-header: cc_version=2.1.30.{0}; cch={0};"


def headed(value, **fields):
    """A body whose system prompt begins with a billing header."""
    texts = [{"type": "text", "text": text} for text in (HEADER.format(value), "Be brief.")]
    return body("a", "b", **{"system": texts, **fields})


@pytest.mark.parametrize(
    ("endpoint", "kind"),
    [("", "expected"), ("api.anthropic.com/v1/messages", "expected"), ("gateway.example/v1/messages", "waste")],
)
def test_a_billing_header_is_dropped_by_anthropic_and_by_nobody_else(endpoint, kind):
    mine, theirs = (drop_unrendered(parsed(headed(value)), endpoint) for value in ("a1b2c", "d3e4f"))
    found = compare_prompts(mine, theirs)
    assert found.is_covered == (kind == "expected")
    cause = find_causes(mine, theirs, found, ())[0]
    assert (cause.code, cause.kind, cause.harmless) == ("LORE107", kind, kind == "expected")


CHOICE = {"tool_choice": {"type": "any"}}


@pytest.mark.parametrize(
    ("endpoint", "fell", "kind"),
    [
        ("api.anthropic.com/v1/messages", None, "waste"),
        ("api.anthropic.com/v1/messages", 0, "expected"),
        ("gateway.example/v1/messages", None, "unattributable"),
    ],
)
def test_a_changed_field_costs_what_the_provider_says(endpoint, fell, kind):
    mine, theirs = parsed(body("a")), parsed(body("a", "b", **CHOICE))
    call = Call(endpoint=endpoint)
    found = find_causes(
        mine, theirs, compare_prompts(mine, theirs), (), previous_call=call, current_call=call, fell=fell
    )
    cause = found[0]
    assert (cause.code, cause.kind) == ("LORE121", kind)
    assert cause.position == (len(mine.head) if "anthropic" in endpoint else 0)


def fields(left, right, **calls):
    mine, theirs = parsed(body("a", **left)), parsed(body("a", "b", **right))
    return [cause.evidence for cause in find_causes(mine, theirs, compare_prompts(mine, theirs), (), **calls)]


def test_a_field_that_lore_knows_is_named_and_a_member_that_it_does_not_know_is_content():
    known = ParameterChanged("output_config.effort", "low", "high", "generation", "claude", "messages")
    assert fields({"output_config": {"effort": "low"}}, {"output_config": {"effort": "high"}}) == [known]
    other = ParameterChanged("output_config", None, "1", "features", "claude", "unknown", member="mine")
    assert fields({}, {"output_config": {"mine": 1}}) == [other]


@pytest.mark.parametrize("behind", [0, 50, 56])
def test_a_credential_in_a_field_is_masked_before_its_value_is_cut(behind):
    (found,) = fields({}, {"context_management": "x" * behind + " ghp_" + "a1B2" * 8})
    assert "a1B2" not in found.after
    assert len(found.after) <= 61


def test_beta_features_that_came_and_went_are_named():
    found = fields({}, {}, previous_call=Call(betas=("a", "b")), current_call=Call(betas=("b", "d", "c")))
    assert found == [BetasChanged(("c", "d"), ("a",), "claude", "unknown")]


def test_tools_that_came_and_went_are_named_with_their_servers():
    many = [{**A, "name": f"mcp__hub__{number:03}"} for number in range(70)]
    found = why(body("x", tools=[A, {**B, "name": "mcp__git_hub__list"}]), body("x", tools=[A, *many]))[0].evidence
    assert (found.removed, found.servers) == (("mcp__git_hub__list",), ("hub", "git_hub"))
    assert found.added == tuple(one["name"] for one in many[:64])
    assert found.unnamed == 6


def test_differences_that_were_not_looked_at_are_counted():
    left, right = ([f"{number} {word} of it" for number in range(60)] for word in ("one", "two"))
    (cause,) = why(body("x", *left), body("x", *right))
    assert (cause.code, cause.skipped) == ("LORE100", 12)


def test_an_answer_that_speaks_of_a_repository_is_no_repositorys_state():
    """A recorded answer was edited behind "the repository structure:", and was called a directory listing."""
    left, right = (
        "Read the repository structure:\n\n1. Open it.",
        "Read the repository structure to see:\n\n1. Shut it.",
    )
    assert codes(body("a", assistant(left), "b"), body("a", assistant(right), "b", "c")) == ["LORE100"]


def test_the_container_of_a_tool_is_no_part_of_what_is_cached():
    """A recording whose prefix stays had a container from its second request on, and was warned of."""
    assert codes(body("a"), body("a", "b", container="container_1")) == []


def test_what_only_the_recorder_spelled_otherwise_loses_nothing():
    """One body stored as text, the next parsed: the same content was called a change of key order."""
    left, right = body(used({"a": 1, "b": 2}), "x"), body(used({"b": 2, "a": 1}), "x", assistant("y"), "z")
    mine, theirs = parsed(left), msgspec.structs.replace(parsed(right), fidelity="parsed")
    found = find_causes(mine, theirs, compare_prompts(mine, theirs), [])
    assert [(one.code, one.kind, one.harmless) for one in found] == [("LORE105", "expected", True)]
    assert found[0].qualifiers == ("stored-otherwise",)
    alike = find_causes(mine, parsed(right), compare_prompts(mine, parsed(right)), [])
    assert [one.kind for one in alike] == ["waste"]


def test_a_number_of_a_tool_that_is_written_otherwise_is_spelling():
    """A schema with 1.0 in place of 1 was called another definition."""
    shares = [{**A, "input_schema": {"properties": {"share": {"minimum": one}}}} for one in (1, 1.0)]
    assert codes(body("x", tools=shares[:1]), body("x", tools=shares[1:])) == ["LORE106"]


def test_a_prompt_rendered_anew_after_a_pause_is_named_once():
    """What a resume rendered otherwise was told twice: as memory, and as rendered anew."""
    left, right = body("# Memory\n- a", "x", assistant("y")), body("# Memory\n- b", "x", assistant("y"), "z")
    mine, theirs = parsed(left), parsed(right)
    (again,) = find_causes(mine, theirs, compare_prompts(mine, theirs), [], pause=4000.0)
    assert (again.code, again.qualifiers, again.paused) == ("LORE123", ("after-a-pause",), 4000.0)
    calls = {"previous_call": Call(session="a"), "current_call": Call(session="b")}
    (again,) = find_causes(mine, theirs, compare_prompts(mine, theirs), [], pause=4000.0, **calls)
    assert (again.code, again.qualifiers, again.paused) == ("LORE123", ("another-process",), None)
    assert [one.code for one in find_causes(mine, theirs, compare_prompts(mine, theirs), [], pause=40.0)] == ["LORE126"]


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("Heute ist Samstag, der 21. November 2026.", "Heute ist Sonntag, der 22. November 2026.", "LORE101"),
        ("Nous sommes le 1er décembre 2026.", "Nous sommes le 2 décembre 2026.", "LORE101"),
        ("今日は2026年11月21日です。", "今日は2026年11月22日です。", "LORE101"),
        ("[21/Nov/2026:18:54:40 +0000] begun", "[21/Nov/2026:18:54:41 +0000] begun", "LORE101"),
        ("Stand: 1830 Uhr", "Stand: 1845 Uhr", "LORE101"),
        ("Tokens so far: 12031", "Tokens so far: 15400", "LORE109"),
        ("Messages in this chat: 12", "Messages in this chat: 14", "LORE108"),
        ("There are 12 rules.", "There are 13 rules.", "LORE100"),
        ("Use version 1.2.3 of it.", "Use version 1.2.4 of it.", "LORE100"),
    ],
)
def test_what_varies_is_known_by_its_form_or_by_the_words_beside_it(before, after, code):
    assert codes(body("x", system=before), body("x", system=after)) == [code]


@pytest.mark.parametrize(("tag", "code"), [("directory_structure", "LORE110"), ("retrievedContext", "LORE126")])
def test_a_name_is_read_as_words_however_it_is_put_together(tag, code):
    one, other = (body("x", system=f"<{tag}>\n- {word}\n</{tag}>") for word in ("a/b.py", "a/b.py\n- a/c.py"))
    assert codes(one, other) == [code]


GPT = {"model": "gpt-5.6-sol"}


def test_a_last_message_that_is_rewritten_has_one_cause():
    """The tail's own text was blamed beside the missing breakpoint."""
    left, right = body("x", assistant("y"), "Plan: a", **GPT), body("x", assistant("y"), "Plan: b", **GPT)
    found = why(left, right, dialect="openai-chat")
    assert [one.code for one in found] == ["LORE133"]
    assert "Plan: a" in found[0].also[0].evidence.before


def test_a_message_that_a_gateway_puts_into_the_system_prompt_has_moved():
    """It was named as a text that was put in, with nothing to say where it had stood."""
    said = {"type": "text", "text": "The user switched to plan mode."}
    system = [{"type": "text", "text": "Be brief."}]
    left = body("one", {"role": "system", "content": [said]}, assistant("two"), "three", system=system)
    right = body("one", assistant("two"), "three", assistant("four"), "five", system=[*system, said])
    assert codes(left, right) == ["LORE111"]
    assert codes(right, left)[0] == "LORE111"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ([{"type": "text", "text": "done"}], "LORE112"),
        ([{"type": "text", "text": "done", "citations": [1]}], "LORE117"),
        ([{"type": "text", "text": "do"}, {"type": "text", "text": "ne"}], "LORE117"),
    ],
)
def test_a_results_text_may_become_a_block_of_it(content, code):
    """It was named as a result that was rewritten."""
    assert codes(body("x", used({}), result("done"), "y"), body("x", used({}), result(content), "y")) == [code]


def test_a_thoughts_signature_that_is_dropped_is_thinking():
    call = {"functionCall": {"name": "ls", "args": {"path": "a.py"}}}
    left, right = (
        {"contents": [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [part]}]}
        for part in ({**call, "thoughtSignature": "CtQBAcu98Pa"}, call)
    )
    assert codes(left, right, dialect="gemini") == ["LORE115"]
