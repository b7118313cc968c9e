"""Compactions by the provider: items, blocks, edits that a response says it applied, a prompt that was cut."""

import pytest

from judge.captures import asks, break_codes, call, judged, text, usage

RESPONSES = "https://api.openai.com/v1/responses"
LONG = "Find the bug. " * 900
ONE = text("user", LONG)
TWO = (ONE, text("assistant", "I look into it."), text("user", "Go on. " * 60))
SEAL = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA" * 40}


def message_item(role, words):
    return {"type": "message", "role": role, "content": words}


def openai(*items, **fields):
    return {"model": "gpt-5.1", "instructions": "Be brief.", "input": list(items), **fields}


def bill(total, read=0):
    return {"input_tokens": total, "input_tokens_details": {"cached_tokens": read}, "output_tokens": 9}


@pytest.mark.parametrize("later_items", [
    (SEAL, message_item("user", "Go on.")),
    (SEAL, message_item("assistant", "I did."), message_item("user", "Go on."), message_item("user", "Now.")),
    (message_item("user", "Keep this."), SEAL, message_item("user", "Go on.")),
])  # fmt: skip
def test_opaque_compaction_item_is_a_compaction(tmp_path, later_items):
    verdicts, _ = judged(
        tmp_path,
        call(0, openai(message_item("user", LONG), prompt_cache_key="k"), bill(3000), url=RESPONSES),
        call(10, openai(*later_items, prompt_cache_key="k"), bill(1100), url=RESPONSES),
    )
    assert verdicts[1].turn.chain == "main"
    assert break_codes(verdicts[1]) == ["LORE125"]
    assert verdicts[1].causes[0].kind == "expected"


@pytest.mark.parametrize(("edits", "code"), [
    ([{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 3000}], "LORE125"),
    ([{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 0, "cleared_input_tokens": 0}], "LORE301"),
    ([], "LORE301"),
])  # fmt: skip
def test_edits_reported_by_response_are_the_cause(tmp_path, edits, code):
    verdicts, _ = judged(tmp_path, call(0, asks(ONE), usage(0, 9000)),
        call(10, asks(*TWO), usage(6000, 3100), context_management={"applied_edits": edits}))  # fmt: skip
    assert break_codes(verdicts[1]) == [code]
    if code == "LORE125":
        assert verdicts[1].causes[0].evidence.tokens == 3000


def test_pass_that_summarised_is_the_cause(tmp_path):
    """The API summarised the prompt, read it whole for that, and answered a shorter one."""
    passes = [{"type": "compaction", **usage(9000, 100)}, {"type": "message", **usage(6000, 300)}]
    edits = {"edits": [{"type": "compact_20260112"}]}
    calls = [
        call(0, asks(ONE, context_management=edits), usage(0, 9000)),
        call(10, asks(*TWO, context_management=edits), {**usage(6000, 300), "iterations": passes}),
    ]
    verdicts, _ = judged(tmp_path, *calls)
    (cause,) = verdicts[1].causes
    assert (cause.code, cause.strength, cause.kind, cause.evidence.edits) == (
        "LORE125", "strong", "expected", ("compaction",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "total", "code"),
    [({"truncation": "auto"}, 2000, "LORE125"), ({"truncation": "auto"}, 8300, "LORE301"), ({}, 2500, "LORE301")],
)
def test_shrunk_prompt_with_truncation_was_cut_by_provider(tmp_path, fields, total, code):
    first = message_item("user", LONG * 3)
    verdicts, _ = judged(
        tmp_path,
        call(0, openai(first, **fields), bill(8200, 8064), url=RESPONSES),
        call(
            10,
            openai(first, message_item("assistant", "I do."), message_item("user", "Go on."), **fields),
            bill(total),
            url=RESPONSES,
        ),
    )
    assert break_codes(verdicts[1]) == [code]


@pytest.mark.parametrize(("fields", "response", "strength"), [
    ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, {}, "weak"),
    (
        {},
        {"context_management": {"applied_edits": [{"type": "clear_tool_uses_1", "cleared_input_tokens": 3000}]}},
        "strong"
    ),
], ids=["allowed", "applied"])  # fmt: skip
@pytest.mark.parametrize(("answered_by", "code"), [("Amazon Bedrock", "LORE170"), ("Anthropic", "LORE125")])
def test_reroute_leads_over_provider_edits(tmp_path, fields, response, strength, answered_by, code):
    """A router changed the cloud just when the provider was asked to clear: another cache holds nothing of either."""
    url = "https://openrouter.ai/api/v1/messages"
    verdicts, _ = judged(tmp_path, call(0, asks(ONE, **fields), usage(0, 9000), url=url, provider="Anthropic"),
        call(10, asks(*TWO, **fields), usage(0, 6000), url=url, provider=answered_by, **response))  # fmt: skip
    assert break_codes(verdicts[1]) == [code]
    lead = verdicts[1].causes[0]
    edited = lead if code == "LORE125" else lead.also[0]
    assert (edited.code, edited.strength, edited.kind) == ("LORE125", strength, "expected")
