"""Compaction as Codex does it: the user's messages are kept, and a summary follows them."""

import json

import pytest

from helpers.each import each
from lore.judge.chains.chain import ComparedChain
from lore.judge.pairs.pair import lost_tokens
from lore.model.events import Usage
from lore.model.turn import Exchange
from lore.prefix.chains import Chains
from lore.run.rules import PACKAGED
from model.making import dumps, parsed, turn


def item(role, *texts):
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


def step(n):
    return [
        {"type": "reasoning", "summary": [], "encrypted_content": f"gAAAA{n}"},
        {
            "type": "function_call",
            "name": "shell",
            "arguments": json.dumps({"command": ["cat", f"f{n}.py"]}),
            "call_id": f"c{n}",
        },
        {"type": "function_call_output", "call_id": f"c{n}", "output": f"line of file {n}\n" * 40},
        item("assistant", f"I have looked at file {n} and fixed the fault in it; all tests pass."),
    ]


RULES = item("developer", "<permissions instructions>\nFiles may be read.\n</permissions instructions>")
HERE = "<environment_context>\n  <cwd>/srv/app</cwd>\n  <shell>zsh</shell>\n</environment_context>"
PLACE = item("user", "# AGENTS.md instructions for /srv/app\n\nRun the tests.", HERE)
ELSEWHERE = item("user", "# AGENTS.md instructions for /srv/app\n\nRun the tests.", HERE.replace("app", "lib"))
ASKED = [item("user", f"Fix the parser in f{n}.py, and explain the fault.") for n in range(60)]
SUMMARY = item(
    "user", "Another language model started to solve this problem and produced a summary:\nf0 and f1 are fixed."
)
SEALED = {"type": "compaction", "encrypted_content": "gAAAAsummary"}
NEXT = item("user", "Now write the changelog.")


def body(*items, instructions="You are Codex."):
    tools = [{"type": "function", "name": "shell", "parameters": {"type": "object"}, "strict": False}]
    return {"model": "gpt-5.2-codex", "instructions": instructions, "tools": tools, "input": [*items]}


def worked(number):
    return [RULES, PLACE, *(message for n in range(number) for message in (ASKED[n], *step(n)))]


def judged(previous, current):
    """Return the chains of two requests, and the causes of the second if it continues the first."""
    chains, pairs = Chains(), ComparedChain(PACKAGED.rules)
    prompts = [parsed(raw, "openai-responses") for raw in (previous, current)]
    names = [
        chains.add(prompt, Exchange(dumps(raw), "wire"))[0]
        for prompt, raw in zip(prompts, (previous, current), strict=True)
    ]
    diff = [pairs.compare_next(turn(prompt, n)) for n, prompt in enumerate(prompts, 1)][-1]
    assert diff is not None
    return names, [(cause.code, cause.kind) for cause in diff.causes]


COMPACTED = {
    "instructions first": [RULES, PLACE, *ASKED[:3], SUMMARY, NEXT],
    "in mid-turn": [RULES, PLACE, *ASKED[:3], SUMMARY],
    "instructions after the summary": [*ASKED[:3], SUMMARY, RULES, PLACE, NEXT],
    "instructions before the last message": [*ASKED[:2], RULES, PLACE, ASKED[2], SUMMARY],
    "by the API": [*ASKED[:3], RULES, PLACE, SEALED, NEXT],
    "by the API, instructions first": [RULES, PLACE, *ASKED[:3], SEALED],
    "with its oldest message cut": [
        item("user", "Mend…12 tokens truncated…"),
        *ASKED[1:3],
        SUMMARY,
        RULES,
        PLACE,
        NEXT,
    ],
    "with a new environment": [RULES, ELSEWHERE, *ASKED[:3], SUMMARY, NEXT],
    "and gone on": [RULES, PLACE, *ASKED[:3], SUMMARY, NEXT, *step(7)],
}


@each([*COMPACTED])
def test_summary_after_kept_messages_is_a_compaction(how):
    """It was named as messages that are gone, or as a conversation of its own."""
    previous, current = body(*worked(3)), body(*COMPACTED[how])
    assert judged(previous, current) == (["main", "main"], [("LORE125", "expected")])


def test_kept_messages_without_summary_are_a_cut():
    _, causes = judged(body(*worked(3)), body(RULES, PLACE, *ASKED[:3]))
    assert ("LORE100", "waste") in causes


def test_summary_with_kept_answers_is_no_compaction():
    previous = body(*worked(3))
    assert ("LORE125", "expected") not in judged(previous, body(RULES, PLACE, SUMMARY, *worked(3)[2:]))[1]


@pytest.mark.parametrize("kept_messages", [ASKED[:30], []])
def test_new_summary_is_not_rebilled(kept_messages):
    """Only what the previous prompt had, too, can be billed again: here the kept messages."""
    summary = item("user", SUMMARY["content"][0]["text"] + " All tests pass." * 400)
    bodies = [body(*worked(30)), body(RULES, PLACE, *kept_messages, summary)]
    sent_tokens, again = (round(len(dumps(part)) / 4) for part in ([*kept_messages, summary], kept_messages))
    usages = Usage(2_000, 10_000, None), Usage(sent_tokens, round(len(dumps(bodies[1])) / 4) - sent_tokens, None)
    pairs = ComparedChain(PACKAGED.rules)
    diff = [
        pairs.compare_next(turn(parsed(request_body, "openai-responses"), number, usage=usage))
        for number, (request_body, usage) in enumerate(zip(bodies, usages, strict=True), 1)
    ][-1]
    assert diff is not None
    assert lost_tokens(diff, diff.causes[0]) == (pytest.approx(again, rel=0.1, abs=9), "estimated")
