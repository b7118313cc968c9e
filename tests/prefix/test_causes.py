"""Causes of cache breaks: each code has pairs of prompts that show it, and similar ones that do not."""

import json

import msgspec
import pytest

from helpers.each import each
from lore.model.differences import BetasChanged, ParameterChanged
from lore.model.evidence import ModelChanged
from lore.model.state import Change
from lore.model.turn import Call
from lore.prefix.causes import find_causes, recorded_causes
from lore.prefix.overlap import compare_prompts
from model.making import assistant, body, dumps, parsed
from prefix.pairs import codes, explain, model, text, tool_use, user

MARKED = {"cache_control": {"type": "ephemeral"}}
EXPECTED = ("LORE119", "LORE125", "LORE143", "LORE144", "LORE145")


def system(before, after):
    return body("x", system=before), body("x", system=after)


SHOWN = {
    "edited message": ("LORE100", body("one", "x", "y"), body("one", "z", "y")),
    "edited first message": ("LORE127", body("one", "x"), body("two", "x")),
    "shorter history": ("LORE100", body("one", assistant("two"), "x"), body("one")),
    "other role": ("LORE100", body("one", "x"), body("one", assistant("x"))),
    "order of members": ("LORE105", body(model(tool_use({"a": 1, "b": 2}))), body(model(tool_use({"b": 2, "a": 1})))),
    "order in envelope": (
        "LORE105",
        body({"role": "user", "name": "n", "content": "x"}), body({"name": "n", "role": "user", "content": "x"}),
    ),
    "escapes": ("LORE106", json.dumps(body("é")).encode(), dumps(body("é"))),
    "digits": ("LORE106", *(dumps(body(user(text("x", n=1.5)))).replace(b"1.5", n) for n in (b"1.5", b"1.50"))),
    "uuid": ("LORE108", *system(*(f"run 123e4567-e89b-12d3-a456-426614174{end}." for end in ("000", "999")))),
    "temporary path": ("LORE108", *system("in /tmp/abc.1 now", "in /tmp/xyz.2 now")),
    "process id": ("LORE108", *system("env\npid: 4711", "env\npid: 815")),
    "token marker": (
        "LORE109",
        body("x <total_tokens>1000 left</total_tokens>", "y"), body("x <total_tokens>9 left</total_tokens>", "y"),
    ),
    "token count in a tag": (
        "LORE109", body("<context_usage>10%</context_usage>", "y"), body("<context_usage>13%</context_usage>", "y"),
    ),
    "token count": ("LORE109", body("you have 12,345 tokens left", "y"), body("you have 12 tokens remaining", "y")),
    "directory tree": ("LORE110", *(body("x", system=f"<directory_structure>\n- {names}\n</directory_structure>")
                                    for names in ("a/b.py", "a/b.py\n- a/c.py"))),
    "list of files": ("LORE110", *(body("x", system=f"<env>\ncwd: /a\n</env>\n<files>\n{names}\n</files>")
                                   for names in ("a.ts\nb.ts", "a.ts\nb.ts\nc.ts"))),
    "memory after a tag": ("LORE126", body("x", system=[text("Be brief."), text("End.")]), body("x", system=[
        text("Be brief."), text("<agentmemory>\n## Relevant memories\n- tabs\n</agentmemory>"), text("End.")])),
    "retrieved context": ("LORE126", *(body("x", system=f"<retrievedContext>\n- {facts}\n</retrievedContext>")
                                       for facts in ("tabs", "tabs\n- no comments"))),
    "text and block": ("LORE112", body("x"), body(user("x"))),
    "other model": ("LORE119", body("x", model="m"), body("x", model="n")),
    "after the last breakpoint": (
        "LORE146", body(user(text("a", **MARKED)), "volatile"), body(user(text("a", **MARKED)), "changed"),
    ),
}  # fmt: skip
NOT_SHOWN = {
    "extended": ("LORE100", body("one"), body("one", "x")),
    "other value": ("LORE105", body(user(text("a", x=1))), body(user(text("b", x=1)))),
    "other content": ("LORE106", body("é"), body("e")),
    "other word": ("LORE108", *system("run fast", "run slow")),
    "memory in a sentence": ("LORE126", *system("Note: save memory on disk", "Note: save memory on tape")),
    "other number": ("LORE101", *system("take 12 apples", "take 13 apples")),
    "date and word": ("LORE101", *system("2026-01-01 is good", "2026-01-02 is bad")),
    "tokens of something": ("LORE109", body("12 tokens used up", "y"), body("13 tokens used up", "y")),
    "other text": ("LORE112", body("x"), body(user("y"))),
    "text about results": ("LORE117", body('a "tool_result" b'), body('a "tool_result" c')),
    "same model": ("LORE119", body("x", model="m"), body("y", model="m")),
    "before the breakpoint": (
        "LORE146", body("a", user(text("b", **MARKED))), body("A", user(text("b", **MARKED))),
    ),
}  # fmt: skip


@each("code, previous, current", [*SHOWN.values()])
def test_pair_shows_one_cause(code, previous, current):
    assert codes(previous, current) == [code]


@each("code, previous, current", [*NOT_SHOWN.values()])
def test_similar_pair_does_not_have_the_cause(code, previous, current):
    assert code not in codes(previous, current)


def test_cause_names_section_place_and_both_texts():
    cause = explain(body("Today is 2026-01-01.", "y"), body("Today is 2026-01-02.", "y"))[0]
    assert (cause.code, cause.section, cause.position) == ("LORE101", "messages", 2)
    assert (cause.evidence.path, cause.evidence.what) == ("messages[0].content", "date")
    assert "2026-01-01" in cause.evidence.before
    assert "2026-01-02" in cause.evidence.after


def test_spelling_and_content_are_two_causes():
    previous = json.dumps(body("é", "one", "x"), separators=(",", ":")).encode()
    causes = explain(previous, dumps(body("é", "two", "x")))
    assert [(cause.code, cause.position) for cause in causes] == [("LORE106", 2), ("LORE100", 4)]


@pytest.mark.parametrize(("messages", "is_harmless"), [(("a",), True), (("a", assistant("b"), "c"), False)])
def test_first_request_sent_again_to_another_model_loses_nothing(messages, is_harmless):
    (cause,) = explain(body(*messages, model="small"), body(*messages, model="large"))
    assert (cause.code, cause.is_harmless) == ("LORE119", is_harmless)


@pytest.mark.parametrize("code", EXPECTED[1:])
def test_recorded_change_explains_the_whole_break(code):
    assert codes(body("a", "x"), body("b", "x"), code) == [code]
    assert codes(body("a"), body("a", "x"), code) == []


def test_only_expected_changes_are_recorded_causes():
    changes = [Change(code, "d") for code in (*EXPECTED, "LORE117")]
    assert [cause.code for cause in recorded_causes(changes)] == list(EXPECTED)


def test_another_model_is_a_cause_with_equal_bytes():
    cause = explain(body("a", model="m"), body("a", "x", model="n"))[0]
    assert (cause.code, cause.position, cause.evidence) == ("LORE119", 0, ModelChanged("m", "n"))


def test_settings_of_a_document_are_not_its_bytes():
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
    (cause,) = explain(body(user(pdf), "x"), body(user({**pdf, "citations": {"enabled": True}}), "x"))
    assert (cause.code, cause.evidence.members) == ("LORE100", ("citations",))


def test_image_of_another_request_is_apart():
    sources = ({"type": "base64", "media_type": "image/png", "data": data} for data in ("aGk=", "aGo="))
    first, other = (user({"type": "image", "source": source}) for source in sources)
    for answers, is_apart in (((), True), ((assistant("I see."), "And now?"), False)):
        (cause,) = explain(body(first, *answers), body(other, *answers))
        assert (cause.code, cause.evidence.apart) == ("LORE118", is_apart)


def test_detail_of_an_image_is_not_its_bytes():
    low, high = ({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO", "detail": detail}}
                 for detail in ("low", "high"))  # fmt: skip
    (cause,) = explain(body(user(low), "x"), body(user(high), "x"), dialect="openai-chat")
    assert (cause.code, cause.evidence.members) == ("LORE100", ("image_url",))


def test_missing_cached_content_explains_a_longer_body():
    request = {"contents": [{"role": "user", "parts": [{"text": "Find the bug."}]}]}
    with_cache_name = {**request, "cachedContent": "cachedContents/a"}
    whole = {**request, "systemInstruction": {"parts": [{"text": "Be brief."}]}}
    assert codes(with_cache_name, whole, dialect="gemini") == ["LORE122"]


def test_renamed_model_with_a_read_is_no_cause():
    names = body("x", model="m"), body("x", "y", model="m-20260724")
    assert (codes(*names), codes(*names, all_read=True)) == (["LORE119"], [])


def test_partial_prompt_is_a_continuation():
    prompts = parsed(body("a", "b")), msgspec.structs.replace(parsed(body("c")), partial=True)
    causes = find_causes(*prompts, compare_prompts(*prompts), ())
    assert [cause.code for cause in causes] == ["LORE132"]


def test_credential_in_evidence_is_masked():
    secret = "ghp_" + "a1B2" * 8
    cause = explain(body(f"token {secret}Q end", "y"), body(f"token {secret}Z end", "y"))[0]
    assert "****" in cause.evidence.before
    assert "a1B2" not in cause.evidence.before + cause.evidence.after


HEADER = "x-anthropic-billing-header: cc_version=2.1.30.{0}; cch={0};"


@pytest.mark.parametrize(
    ("endpoint", "kind"),
    [("", "expected"), ("api.anthropic.com/v1/messages", "expected"), ("gateway.example/v1/messages", "waste")],
)
def test_billing_header_is_dropped_by_anthropic_only(endpoint, kind):
    bodies = [body("a", "b", system=[text(HEADER.format(value)), text("Be brief.")]) for value in ("a1b2c", "d3e4f")]
    cause = explain(*bodies, endpoint=endpoint)[0]
    assert (cause.code, cause.kind, cause.is_harmless) == ("LORE107", kind, kind == "expected")


@pytest.mark.parametrize(("previous", "current", "code"), [
    (body("x", assistant("y"), "Plan: a"), body("x", assistant("y"), "Plan: b"), "LORE133"),
    (body("x", assistant("y"), "Plan: a"), body("x", assistant("z"), "Plan: a"), "LORE100"),
])  # fmt: skip
def test_rewritten_last_message_without_breakpoint_is_one_cause(previous, current, code):
    causes = explain(*({**side, "model": "gpt-5.6-sol"} for side in (previous, current)), dialect="openai-chat")
    assert [cause.code for cause in causes] == [code]
    assert (code != "LORE133") or "Plan: a" in causes[0].also[0].evidence.before


def test_reload_explains_a_first_message_rendered_again():
    previous = body("# Memory\n- a", "x", assistant("y"))
    current = body("# Memory\n- b", "x", assistant("y"), "z")
    (cause,) = explain(previous, current, pause=4000.0)
    assert (cause.code, cause.qualifiers, cause.paused) == ("LORE123", ("after-a-pause",), 4000.0)
    calls = {"previous_call": Call(session="a"), "current_call": Call(session="b")}
    (cause,) = explain(previous, current, pause=4000.0, **calls)
    assert (cause.code, cause.qualifiers, cause.paused) == ("LORE123", ("another-process",), None)
    assert codes(previous, current, pause=40.0) == ["LORE126"]
    runs = [body(f"# Memory\n- {word}", "x") for word in "ab"]  # of a test that was recorded twice: no session resumes
    assert codes(*runs, pause=4000.0) == ["LORE126"]


def test_spelling_of_another_recorder_loses_nothing():
    previous = body(model(tool_use({"a": 1, "b": 2})), "x")
    current = parsed(body(model(tool_use({"b": 2, "a": 1})), "x", assistant("y"), "z"))
    for fidelity, kind in (("parsed", "expected"), ("wire", "waste")):
        prompts = parsed(previous), msgspec.structs.replace(current, fidelity=fidelity)
        (cause,) = find_causes(*prompts, compare_prompts(*prompts), [])
        assert (cause.code, cause.kind, cause.is_harmless) == ("LORE105", kind, kind == "expected")


def test_spelling_is_expected_if_all_was_read():
    (cause,) = explain(json.dumps(body("é", "x")).encode(), dumps(body("é", "x", "y")), all_read=True)
    assert (cause.kind, cause.qualifiers) == ("expected", ("read-all-the-same",))


def test_text_and_block_are_one_value_for_claude():
    previous, current = body("x", "y", model="claude-opus-5"), body(user("x"), "z", model="claude-opus-5")
    (cause,) = [cause for cause in explain(previous, current) if cause.code == "LORE112"]
    assert (cause.kind, cause.qualifiers, cause.is_harmless) == ("expected", ("same-to-the-api",), True)


# Fields


@pytest.mark.parametrize(("endpoint", "fell", "kind"), [
    ("api.anthropic.com/v1/messages", None, "waste"),
    ("api.anthropic.com/v1/messages", 0, "expected"),
    ("gateway.example/v1/messages", None, "unattributable"),
])  # fmt: skip
def test_changed_field_costs_what_the_provider_documents(endpoint, fell, kind):
    previous, current = body("a"), body("a", "b", tool_choice={"type": "any"})
    cause = explain(previous, current, endpoint=endpoint, fell=fell)[0]
    assert (cause.code, cause.kind) == ("LORE121", kind)
    assert cause.position == (len(parsed(previous).head) if "anthropic" in endpoint else 0)


def fields(before, after, **options):
    return [cause.evidence for cause in explain(body("a", **before), body("a", "b", **after), **options)]


def test_unknown_member_of_a_field_is_content():
    expected = ParameterChanged("output_config.effort", "low", "high", "generation", "claude", "messages")
    assert fields({"output_config": {"effort": "low"}}, {"output_config": {"effort": "high"}}) == [expected]
    other = ParameterChanged("output_config", None, "1", "features", "claude", "unknown", member="mine")
    assert fields({}, {"output_config": {"mine": 1}}) == [other]


def test_change_deep_inside_a_field_is_shown():
    before, after = ({"type": "json_schema", "name": "answer", "schema": {"title": "x" * 40 + end}} for end in "ab")
    (evidence,) = fields({"response_format": before}, {"response_format": after}, dialect="openai-chat")
    assert (evidence.before, evidence.after) == tuple([f'…{"x" * 20}{end}"}}}}' for end in "ab"])


@pytest.mark.parametrize("characters_before", [0, 50, 56, 4080])  # of a long value the end of 4,096 is shown
def test_credential_in_a_field_is_masked(characters_before):
    before, secret = "x" * characters_before, " ghp_" + "a1B2" * 8
    (evidence,) = fields({"context_management": before}, {"context_management": before + secret})
    assert "a1B2" not in evidence.after
    assert len(evidence.after) <= 61


XLSX, PDF = ({"type": "anthropic", "skill_id": name, "version": "latest"} for name in ("xlsx", "pdf"))


@pytest.mark.parametrize(("field", "before", "after", "kinds"), [
    ("container", {"skills": [XLSX]}, {"id": "container_1", "skills": [XLSX, PDF]}, ["waste"]),
    ("container", {"skills": [XLSX]}, {"id": "container_1", "skills": [XLSX]}, []),
    ("prompt", {"id": "pmpt_1", "version": "3"}, {"id": "pmpt_1", "version": "4"}, ["waste"]),
    ("prompt", {"id": "pmpt_1", "variables": {"a": "1"}}, {"id": "pmpt_1", "variables": {"a": "2"}},
     ["unattributable"]),  # it may be at the end
])  # fmt: skip
def test_stored_content_that_a_field_names_is_compared(field, before, after, kinds):
    is_claude = field == "container"
    request = body("x") if is_claude else {"model": "gpt-5.2", "input": "x"}
    endpoint = "api.anthropic.com/v1/messages" if is_claude else "api.openai.com/v1/responses"
    dialect = "anthropic" if is_claude else "openai-responses"
    causes = explain({**request, field: before}, {**request, field: after}, dialect=dialect, endpoint=endpoint)
    assert [(cause.code, cause.kind) for cause in causes] == [("LORE122", kind) for kind in kinds]


def test_changed_beta_features_are_named():
    calls = {"previous_call": Call(betas=("a", "b")), "current_call": Call(betas=("b", "d", "c"))}
    assert fields({}, {}, **calls) == [BetasChanged(("c", "d"), ("a",), "claude", "unknown")]


def test_container_of_a_tool_is_not_cached():
    assert codes(body("a"), body("a", "b", container="container_1")) == []


@pytest.mark.parametrize(("fell", "kind"), [(None, "waste"), (0, "expected")])
def test_new_prompt_cache_key_is_waste_at_openai(fell, kind):
    """Each key selects a machine of its own: a random one in each request reads nothing."""
    bodies = [
        {"messages": [{"role": "user", "content": "a"}, *more], "model": "gpt-5.1", "prompt_cache_key": key}
        for key, more in (("0b0c7f6e", []), ("9d0e1f2a", [{"role": "assistant", "content": "b"}]))
    ]
    (cause,) = explain(*bodies, dialect="openai-chat", endpoint="api.openai.com/v1/chat/completions", fell=fell)
    assert (cause.code, cause.evidence.field, cause.kind) == ("LORE122", "prompt_cache_key", kind)


@pytest.mark.parametrize("first", ["speed", "thinking"])
def test_fields_of_one_code_cost_from_first_place(first):
    """On Claude fast mode misses from the system prompt on, thinking only from the messages on."""
    values = {"speed": "fast", "thinking": {"type": "enabled", "budget_tokens": 1024}}
    changed = {name: values[name] for name in sorted(values, key=first.__ne__)}
    (cause,) = explain(body("a"), body("a", "b", **changed), endpoint="api.anthropic.com/v1/messages")
    assert (cause.code, cause.evidence.field, cause.section) == ("LORE120", "speed", "system")


UPDATE = {"type": "text", "text": "[knowledge update 1] The release is out."}


@each("messages, expected", [
    ([user(text("a")), user(text("b"))], ["LORE144"]),  # the update moved to the system prompt
    ([user(text("a"), UPDATE), user(text("b"))], ["LORE100"]),  # it is still in the messages
    ([user(text("a"), UPDATE), user(text("c"))], ["LORE100"]),  # the last message alone differs
    ([user(text("other")), user(text("b"))], ["LORE100"]),
])  # fmt: skip
def test_reset_moves_knowledge_updates_out_of_the_messages(messages, expected):
    previous = {"system": "You help.", "messages": [user(text("a"), UPDATE), user(text("b"))]}
    current = {"system": "You help. The release is out.", "messages": messages}
    assert codes(previous, current)[:1] == expected
