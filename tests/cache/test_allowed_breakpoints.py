"""Where cache breakpoints are allowed: by API, model and platform, as lint and check apply it."""

from datetime import date

import pytest

from cli.running import lore
from helpers.each import each
from judge.captures import SYSTEM, call, judged, text, usage
from lore.cache.rules import allowed_breakpoints, seconds
from lore.judge.requests.lint import Linter
from lore.run.rules import packaged
from model.making import dumps, parsed, turn

MARK, HOUR = {"cache_control": {"type": "ephemeral"}}, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
POINT, POINT_HOUR = {"cachePoint": {"type": "default"}}, {"cachePoint": {"type": "default", "ttl": "1h"}}
RESULT = {"toolResult": {"toolUseId": "t", "content": [{"text": "done"}, POINT]}}
LONG = "Read before you write, run the tests, and say what you changed and why. " * 100
NOVA, CLAUDE = "us.amazon.nova-pro-v1:0", "us.anthropic.claude-sonnet-4-6-v1:0"


def converse(model, *content, tools=(), system=()):
    spec = {"toolSpec": {"name": "ls", "description": "List files.", "inputSchema": {"json": {"type": "object"}}}}
    return turn(parsed({
        "modelId": model, "system": [{"text": LONG}, *system], "toolConfig": {"tools": [spec, *tools]},
        "messages": [{"role": "user", "content": [{"text": "Go."}, *content]}],
    }, "bedrock"))  # fmt: skip


def chat(model, marks, mark=MARK):
    parts = [{"type": "text", "text": f"Part {n}.", **mark} for n in range(marks)]
    return turn(parsed({"model": model, "messages": [
        {"role": "system", "content": [{"type": "text", "text": LONG}]}, {"role": "user", "content": parts},
    ]}, "openai-chat"))  # fmt: skip


def messages(model="claude-sonnet-5", *, system=MARK, **block):
    user_messages = [{"role": "user", "content": [{"type": "text", "text": "Go.", **block}]}]
    head = [{"type": "text", "text": LONG, **system}]
    return turn(parsed({"model": model, "max_tokens": 9, "system": head, "messages": user_messages}))


def refused(request):
    """Return code and reason of each finding that the provider refuses the request for."""
    laws = ("LORE152", "LORE180", "LORE181")
    defects = [defect for defect in Linter(packaged).defects(request) if defect.code in laws]
    return [f"{defect.code} {defect.evidence.fix_detail()}".strip() for defect in defects if defect.kind is None]


@each({
    "nova: system and messages": (converse(NOVA, POINT, system=[POINT]), []),
    "nova: tools": (converse(NOVA, tools=[POINT]), ["LORE180 section"]),
    "nova: an hour": (converse(NOVA, POINT_HOUR), ["LORE180 lifetime"]),
    "claude on bedrock: everywhere": (converse(CLAUDE, POINT, tools=[POINT], system=[POINT]), []),
    "claude on bedrock: an hour after five minutes": (converse(CLAUDE, POINT_HOUR, system=[POINT]), ["LORE181"]),
    "claude 3 on bedrock": (converse("anthropic.claude-3-haiku-20240307-v1:0", system=[POINT]), ["LORE180 model"]),
    "llama on bedrock": (converse("meta.llama4-scout-17b-instruct-v1:0", POINT), ["LORE180 model"]),
    "an inference profile": (converse("arn:aws:bedrock:eu:1:inference-profile/x1", POINT, tools=[POINT]), []),
    "converse: cache_control": (converse(CLAUDE, {"text": "More.", **MARK}), ["LORE180 other-api"]),
    "converse: inside a result": (converse(CLAUDE, RESULT), ["LORE180 inside-result"]),
    "openrouter: claude, four": (chat("anthropic/claude-sonnet-5", 4), []),
    "openrouter: claude, five": (chat("anthropic/claude-sonnet-5", 5), ["LORE152"]),
    "openrouter: gemini, six": (chat("google/gemini-2.5-pro", 6), []),
    "openai: six ignored": (chat("gpt-4.1", 6), []),
    "deepseek: six ignored": (chat("deepseek-chat", 6), []),
    "anthropic: two of five minutes": (messages(**MARK), []),
    "anthropic: an hour after five minutes": (messages(system=MARK, **HOUR), ["LORE181"]),
    "anthropic: five minutes after an hour": (messages(system=HOUR, **MARK), []),
    "anthropic: OpenAI's member": (messages(prompt_cache_breakpoint={"mode": "explicit"}), ["LORE180 other-api"]),
    "anthropic: camel case": (messages(cacheControl={"type": "ephemeral"}), ["LORE180 other-api"]),
})  # fmt: skip
def test_lint_refuses_breakpoints_by_api_and_model(case):
    request, expected = case
    assert refused(request) == expected


@pytest.mark.parametrize(("model", "is_ignored"), [("google/gemini-2.5-pro", False), ("gpt-4.1", True)])
def test_gateway_takes_breakpoints_for_gemini(model, is_ignored):
    assert ("LORE180" in {defect.code for defect in Linter(packaged).defects(chat(model, 1))}) is is_ignored


@pytest.mark.parametrize(
    ("day", "lifetimes", "automatic"),
    [("2024-12-01", (300,), False), ("2025-06-01", (300, 3600), False), ("2026-03-01", (300, 3600), True)],
)
def test_rule_that_holds_depends_on_the_date(day, lifetimes, automatic):
    rule = packaged().breakpoints("anthropic", "anthropic", "claude-opus-4-1", at=seconds(date.fromisoformat(day)))
    assert (rule.lifetimes, rule.automatic, rule.most) == (lifetimes, automatic, 4)


def test_unknown_api_and_model_has_no_rule():
    assert allowed_breakpoints(packaged(), chat("my-model", 1)) is None


def test_message_names_the_provider_that_refuses(tmp_path):
    body = {"model": "anthropic/claude-sonnet-5", "messages": [
        {"role": "user", "content": [{"type": "text", "text": f"Part {n}.", **MARK} for n in range(5)]}]}  # fmt: skip
    (tmp_path / "a.json").write_bytes(dumps(body))
    ran = lore("lint", str(tmp_path / "a.json"))
    assert "at most 4 are allowed; Anthropic's API answers such a request with an error" in " ".join(ran.out.split())


def grown(number):
    """Return a conversation of `number` tool steps with one breakpoint, on the system prompt."""
    steps = [text("user" if n % 2 == 0 else "assistant", f"Step {n}. " * 900) for n in range(2 * number + 1)]
    return {"model": "claude-opus-5", "max_tokens": 9, "messages": steps,
            "system": [{"type": "text", "text": SYSTEM, **MARK}]}  # fmt: skip


def test_check_reports_a_breakpoint_before_a_growing_history(tmp_path):
    calls = [call(20 * n, grown(n), usage(6000 if n else 0, 0 if n else 6000, 2600 * (n + 1))) for n in range(4)]
    (finding,) = judged(tmp_path, *calls)[1]
    assert (finding.code, finding.evidence.behind, finding.times) == ("LORE114", 6000, 3)


def test_unsplit_writes_have_the_requested_lifetime(tmp_path):
    def body(*messages):
        *before, last = messages
        marked = {**last, "content": [{**last["content"][0], **HOUR}]}
        return {"model": "claude-opus-5", "max_tokens": 9, "messages": [*before, marked],
                "system": [{"type": "text", "text": SYSTEM, **HOUR}]}  # fmt: skip

    question, answer, second_question = (
        text("user", "Find the bug. " * 200),
        text("assistant", "Done."),
        text("user", "Why?"),
    )
    calls = [
        call(0, body(question), usage(0, 6600)),
        call(400, body(question, answer, second_question), usage(0, 6700)),
    ]
    verdict = judged(tmp_path, *calls)[0][-1]
    assert [cause.code for cause in verdict.causes] == ["LORE301"]
    assert verdict.causes[0].ruled_out[0].limit == 3600
    assert verdict.pair.price.write == verdict.pair.price.write_1h


def test_check_reports_each_place_of_a_refused_breakpoint(tmp_path):
    """The first place hid the second one, which was found only once the first was mended."""
    empty = {"type": "text", "text": "", **MARK}

    def body(number):
        history = [text("user" if n % 2 == 0 else "assistant", f"Step {n}. " * 900) for n in range(2 * number)]
        blocks = [empty, {"type": "text", "text": f"Go {number}.", **MARK}, empty]
        system = [{"type": "text", "text": SYSTEM}, empty]
        return {"model": "claude-opus-5", "max_tokens": 9, "system": system,
                "messages": [*history, {"role": "user", "content": blocks}]}  # fmt: skip

    final_findings = judged(tmp_path, *(call(20 * n, body(n), None) for n in range(1, 4)))[1]
    rows = [(finding.code, finding.json_path, finding.times) for finding in final_findings if finding.code == "LORE180"]
    assert rows == [("LORE180", "system[1]", 3), ("LORE180", "messages[2].content[0]", 3)]
