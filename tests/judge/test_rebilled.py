"""What is billed again: no new content, nothing that was removed, and nothing that could not be read anyway."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec import Raw
from msgspec.structs import replace

from cache.talk import bill
from cli.running import lore
from formats.codex import Rollout
from formats.opencode import START, Export
from judge.captures import asks, break_codes, call, judged, text, usage
from judge.judged import Judged, opened
from judge.pi_sessions import session
from lore.cache.rules import Price
from lore.judge.agreement import was_append_read
from lore.judge.pairs.pair import EXTENDED, PairFacts, limit_rebilled
from lore.judge.prices import paid_again
from lore.model.events import Usage
from lore.model.items import AssistantMessage, TextBlock, ThinkingBlock, UserMessage
from lore.model.state import Change
from lore.model.turn import Call

LONG = "The stack trace of the failing request is long, here is every frame. " * 120  # some 2,000 tokens
FIRST = (text("user", "Look at the parser."), text("assistant", "done"))


def results(*outputs):
    """Return messages with a tool call for each output, a text or an image."""
    messages = [text("user", "Look at the files.")]
    for number, output in enumerate(outputs):
        messages.append({"role": "assistant", "content": [
            {"type": "tool_use", "id": f"toolu_{number}", "name": "cat", "input": {"path": f"{number}.py"}},
        ]})  # fmt: skip
        messages.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": f"toolu_{number}",
             "content": [output if isinstance(output, dict) else {"type": "text", "text": output}]},
        ]})  # fmt: skip
    return messages


@pytest.mark.parametrize("edited", ["Only look at the lexer.", LONG + "What is it?", LONG[:4000] + "What is it?"])
def test_edited_last_prompt_is_free_rewind(tmp_path, edited):
    before, after = asks(*FIRST, text("user", LONG)), asks(*FIRST, text("user", edited))
    verdicts, _ = judged(tmp_path, call(0, before, usage(6000, 2200)), call(60, after, usage(6000, 2210)))
    (cause,) = verdicts[-1].causes
    assert (cause.code, cause.qualifiers, verdicts[-1].pair.is_break) == ("LORE143", ("nothing-lost",), False)
    assert was_append_read(verdicts[-1]) is None


@pytest.mark.parametrize(("provider", "is_limited"), [("a", True), ("b", False)])
def test_smaller_prompt_of_another_provider_limits_no_loss(provider, is_limited):
    """Each provider counts tokens in its own way."""
    talk = opened()
    previous = replace(talk.last, call=Call(answered_by="a"))
    talk.turn(bill(5_000, 5_000))
    current = replace(talk.last, call=Call(answered_by=provider))
    facts = PairFacts(previous, current, EXTENDED, 7_300, comparable=True, lifetime=300.0, state=talk.state)
    assert (limit_rebilled(facts, ()) is not None) is is_limited


@pytest.mark.parametrize("closing", ["", '"], "tools": ' + "Read a file. " * 40])
def test_history_in_one_text_is_no_rewind(tmp_path, closing):
    """An agent adds the model's answer to one text: before words that stay, or at its end."""
    answer = "Thought: the parser is in parse.py, so I have to read that file first."
    before, after = (asks(text("user", LONG + steps + closing)) for steps in ("", "\n" + answer + "\nResult: 3"))
    calls = call(0, before, usage(6000, 2200), answer=answer), call(60, after, usage(6000, 2210))
    verdicts, _ = judged(tmp_path, *calls)
    (cause,) = verdicts[-1].causes
    assert (cause.code, cause.kind, cause.evidence.fix_detail()) == ("LORE100", "waste", "history")
    verdicts, _ = judged(tmp_path, call(0, before, usage(6000, 2200)), calls[1])  # the answer is not recorded
    assert break_codes(verdicts[-1]) == ["LORE100"]


@pytest.mark.parametrize(("read", "lost"), [(9_216, 6_700), (0, 6_700), (4_096, 6_700)])
def test_loss_of_cleared_results_excludes_what_precedes_them(tmp_path, read, lost):
    """The first request left 9,200 tokens that precede the cleared result; a smaller read was on another machine."""
    export = Export().user("look")
    export.answer(export.tool("c1", "x" * 32_000, time={"compacted": START + 35_000}), bill=(9_200, 0, 20))
    export.answer(export.tool("c2", "y" * 24_000), bill=(8_100, 9_216, 20)).answer("done", bill=(6_100, 17_280, 20))
    export.user("go on").answer("yes", bill=(16_000 - read, read, 20))
    path = tmp_path / "ses_1.json"
    path.write_bytes(export.data())
    (finding,) = lore("check", "-v", "--json", str(path)).json["findings"]
    assert (finding["code"], finding["kind"]) == ("LORE117", "waste")
    assert finding["lost_tokens"] == pytest.approx(lost, rel=0.02)


@pytest.mark.parametrize(("read", "kind", "lost"), [(6_500, "waste", 500), (6_900, "expected", 0)])
def test_changed_setting_with_a_small_miss_is_waste(tmp_path, read, kind, lost):
    """500 of 7,000 tokens were not read: no fall that needs a cause, but one that a changed field has."""
    first, second = asks(*FIRST[:1]), asks(*FIRST, text("user", "And?"), tool_choice={"type": "any"})
    verdicts, _ = judged(tmp_path, call(0, first, usage(0, 7_000)), call(60, second, usage(read, 7_400 - read)))
    assert (verdicts[-1].causes[0].code, verdicts[-1].causes[0].kind) == ("LORE121", kind)
    assert verdicts[-1].lost_tokens == lost


def test_clock_in_last_prompt_is_no_rewind(tmp_path):
    bodies = [asks(*FIRST, text("user", f"It is 2026-11-28T08:0{minute}:11Z. {LONG}")) for minute in range(2)]
    verdicts, _ = judged(
        tmp_path, *(call(60 * n, request_body, usage(6000, 2200)) for n, request_body in enumerate(bodies))
    )
    assert break_codes(verdicts[-1]) == ["LORE101"]


def test_cleared_result_is_not_billed_again(tmp_path):
    """After it 2,100 tokens of the second result are billed again, and 2,100 tokens of the third one are new."""
    files = [f"{number} " + LONG for number in range(4)]
    before = asks(*results(*files[:3]))
    after = asks(*results("[cleared]", *files[1:]))
    verdicts, _ = judged(tmp_path, call(0, before, usage(6000, 6300)), call(60, after, usage(6000, 6330)))
    assert break_codes(verdicts[-1]) == ["LORE117"]
    assert 3_900 < verdicts[-1].lost_tokens < 4_500


def test_removed_image_is_not_billed_again(tmp_path):
    """Two other images of 1,500 tokens are billed again, and a fourth one is new."""
    images = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": f"{number}Ab" * 9000}}
              for number in range(4)]  # fmt: skip
    steps = results(*images)
    before, after = asks(*steps[:7]), asks(*results("[image removed]", *images[1:]))
    verdicts, _ = judged(tmp_path, call(0, before, usage(6000, 4800)), call(60, after, usage(6000, 4900)))
    assert break_codes(verdicts[-1]) == ["LORE118"]
    assert 3_000 < verdicts[-1].lost_tokens < 3_500


@pytest.mark.parametrize(("minutes", "code"), [(2, "LORE301"), (390, "LORE128")])
def test_pause_before_late_compaction_is_expiry(tmp_path, minutes, code):
    path = session(tmp_path / "a.jsonl", (90_000, 0), (400, 90_000), (90_800, 0), compacted=2, pause=minutes)
    output = lore("check", path, "--json", "-v").json
    assert [(finding["turn"], finding["code"]) for finding in output["findings"]] == [(3, code)]


@pytest.mark.parametrize(("model", "signs", "pause", "code"), [
    ("claude-x", ("client-version",), 20.0, "LORE157"), ("claude-x", (), 400.0, "LORE128"),
    ("claude-y", (), 400.0, "LORE128"),
])  # fmt: skip
def test_new_text_of_a_shrunk_prompt_is_no_loss(model, signs, pause, code):
    """Other models count tokens in other ways, so that a smaller count shows nothing."""
    talk = opened()
    talk.turn(bill(12_300, 17_700))
    talk.ask(8_000)
    talk.model = model
    talk.turn(bill(0, 25_000), after=pause, signs=signs)
    assert talk.lead.code == code
    assert (talk.verdict.lost_tokens < 23_000) is (model == "claude-x")


def test_dropped_thinking_does_not_limit_an_expired_loss():
    """With breakpoints most such prompts read everything if nothing expires."""
    talk = Judged()
    talk.model = "claude-sonnet-4-5-20250929"
    talk.ask()
    talk.turn(bill(10_000, 2_000))
    thinking = ThinkingBlock(Raw(b'"%b"' % (b"t" * 400)), "c2ln")
    talk.add(AssistantMessage("a1", blocks=(thinking, TextBlock(Raw(b'"yes"')))))
    talk.use()
    talk.turn(bill(12_000, 3_000))
    talk.add(UserMessage("u1", text=Raw(b'"more"')))
    talk.turn(bill(0, 15_050), after=7200.0)
    assert (talk.lead.code, talk.verdict.lost_tokens) == ("LORE128", 15_000)


def test_new_conversation_in_a_log_is_not_billed_again():
    """Tools and system prompt were read, and the rest of the prompt is new."""
    talk = opened()
    talk.rewind(0)
    talk.ask()
    talk.turn(bill(10_000, 700), changes=(Change("LORE154", "a new conversation"),))
    assert (talk.lead.code, talk.verdict.lost_tokens) == ("LORE154", 0)


def test_nothing_limits_losses_of_grown_prompts():
    talk = opened()
    talk.say()
    talk.ask()
    talk.turn(bill(10_000, 2_310), verdict="system_changed")
    assert (talk.lead.code, talk.verdict.lost_tokens) == ("LORE159", 2_300)


def test_kept_image_counts_by_tokens(tmp_path):
    """An image of 1,500 tokens and a prompt of 600 are kept, and follow a new summary."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR" * 9000}}
    image_message = {"role": "user", "content": [image, {"type": "text", "text": LONG[:2400]}]}
    summary = text("user", "This is a summary of the conversation so far: the parser was repaired.")
    before, after = asks(*results(LONG, LONG), image_message), asks(summary, text("assistant", "Good."), image_message)
    verdicts, _ = judged(tmp_path, call(0, before, usage(6000, 6300)), call(60, after, usage(6000, 2200)))
    assert break_codes(verdicts[-1]) == ["LORE125"]
    assert 1_700 < verdicts[-1].lost_tokens < 2_150


def test_unlogged_summary_is_not_billed_again(tmp_path):
    """The first request has 12,000 tokens, and a later prompt of 1,000 is kept; the log lacks the summary."""
    rollout = Rollout().meta().context()
    rollout.user("what is here?").message("assistant", "a file").count(12_000, 9_600)
    rollout.user("Fix it. " * 500).message("assistant", "done").count(90_000, 80_000)
    users = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
             for text in ("what is here?", "Fix it. " * 500)]  # fmt: skip
    rollout.line("compacted", {"message": "", "replacement_history": users}).event("context_compacted")
    rollout.message("assistant", "on").count(17_000, 9_600)
    path = tmp_path / "a.jsonl"
    path.write_bytes(rollout.data())
    (finding,) = lore("check", str(path), "--json", "-v").json["findings"]
    assert finding["code"] == "LORE125"
    assert 3_400 <= finding["lost_tokens"] <= 3_450


def test_bill_without_input_has_no_rebilled_cost():
    price = Price(uncached=Decimal(5), read=Decimal("0.5"))
    assert paid_again(price, Usage(10, 20, 0, 5), 100) == 0.00045
    assert paid_again(price, Usage(None, None, None, 5), 100) is None
