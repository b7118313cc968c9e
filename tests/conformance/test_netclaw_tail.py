"""002: the requests that netclaw sends, with its volatile block, are judged for what they are.

The block's parts and their order, and where each version put it, are those of its assembler (facts on the five systems,
section 3.2); the history of pull requests 608 to 1218 says which places cost a cache.
"""

from __future__ import annotations

import json

import pytest

from lore.cli.main import main
from lore.model import labels
from lore.model.labels import labelled
from lore.prefix.volatile import made_by_program, volatile_before_history, wrapping
from lore.prompt import layout

SYSTEM = [
    {"role": "system", "content": "You are netclaw. " + "Be helpful. " * 200},
    {"role": "system", "content": "[session]\nid: s-42"},
]
BLOCK = (
    "[memory-recall]\nstatus: healthy\nmode: automatic\n- tea [m1] sensitivity=Low score=0.91\n  they like tea\n\n"
    "current_utc: 2026-06-18T10:0{0}:00Z\n\n[working-context]\nproject_dir: /p\nrecent_files:\n  - a{0}.py\n\n"
    "[active-background-jobs]\n- job {0} is at step {0}{1}"
)
HOLDS = ["recalled memory", "a clock", "the working context", "background jobs"]


def block(number):
    return BLOCK.format(number, " of many" * number)


def said(role, text):
    return {"role": role, "content": text}


def asked(number):
    return said("user", f"Question {number}: " + "why is the sky blue at noon and red at dusk? " * 8)


def answered(number):
    return said("assistant", f"Answer {number}. " * 20)


def called(number):
    function = {"name": "ls", "arguments": "{}"}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"file {number} " * 40},
    ]


@pytest.fixture
def check(desk, capsys):
    def run(*histories, settings=""):
        (desk / "lore.toml").write_text(settings)
        bodies = [
            {"request": {"model": "qwen3-32b", "tools": [], "messages": [*SYSTEM, *history]}} for history in histories
        ]
        (desk / "net.jsonl").write_text("".join(json.dumps(body) + "\n" for body in bodies))
        main(["check", "net.jsonl", "--json"])
        return json.loads(capsys.readouterr().out)

    return run


def codes(result):
    return {finding["code"] for finding in result["findings"]}


def turns(number, last):
    """The histories of several users' turns, each of which ends with what `last` puts behind the question."""
    found, history = [], []
    for turn in range(1, number + 1):
        history.append(asked(turn))
        found.append([*history, *last(turn)])
        history.append(answered(turn))
    return found


@pytest.mark.parametrize("role", ["user", "system"])
def test_a_tail_that_is_replaced_each_turn_is_expected_and_says_what_it_holds(check, role):
    """002, #618 and #634: the block is the last message, and another one next turn."""
    result = check(*turns(3, lambda turn: [said(role, block(turn))]))
    assert codes(result) == {"LORE156"}
    assert {finding["kind"] for finding in result["findings"]} == {"expected"}
    assert result["findings"][0]["evidence"]["holds"] == HOLDS
    assert result["summary"]["breaks"] == 0


def loop(role):
    history, found = [asked(1)], []
    for step in range(1, 4):
        found.append([*history, said(role, block(step))])
        history += called(step)
    return [*found, [*history, said(role, block(4))]]


def test_a_tail_of_the_users_role_in_a_loop_is_a_fake_turn(check):
    """002, #634: behind a tool's result it reads as a new turn of the user."""
    assert codes(check(*loop("user"))) == {"LORE149", "LORE156"}


def test_a_tail_of_the_system_role_in_a_loop_is_none(check):
    """002, #634: with the system role it reads as what it is."""
    assert codes(check(*loop("system"))) == {"LORE156"}


def test_a_block_that_is_persisted_before_the_users_message_only_appends(check):
    """002, #1178 and #1216: `[system: <block>]` goes into history, before the last real user message."""
    history, found = [], []
    for turn in range(1, 4):
        history += [said("user", f"[system: {block(turn)}]"), asked(turn)]
        found.append(list(history))
        history += called(turn)
        found.append(list(history))
        history.append(answered(turn))
    assert codes(check(*found)) == set()


def test_a_nudge_behind_a_tools_result_is_a_fake_turn(check):
    """002, #1216: the nudge after the user's message re-created the spin."""
    history, found = [asked(1)], []
    for step in range(1, 4):
        history += [*called(step), said("user", f"[system: {block(step)}]")]
        found.append(list(history))
    assert codes(check(*found)) == {"LORE149"}


def test_a_tail_wrapped_into_the_last_user_message_that_vanishes_is_named(check):
    """002, #1176: `<context>…</context>` before the last user message, gone next turn: a bust."""
    history, found = [], []
    for turn in range(1, 4):
        question = asked(turn)
        wrapped = f"<context>\n{block(turn)}\n</context>\n\n{question['content']}"
        found.append([*history, said("user", wrapped)])
        history += [question, answered(turn)]
    result = check(*found)
    assert [(finding["code"], finding["turn"], finding["evidence"]["type"]) for finding in result["findings"]] == [
        ("LORE111", 2, "wrapper-gone"), ("LORE111", 3, "wrapper-gone"),
    ]  # fmt: skip
    assert result["findings"][0]["evidence"]["holds"] == HOLDS
    assert "recalled memory, a clock" in result["findings"][0]["message"]
    assert (result["summary"]["chains"], result["summary"]["waste"]) == (1, 2)


def test_a_user_who_takes_back_words_of_his_own_is_no_wrapper():
    assert wrapping("Please. Why is it blue?", "Why is it blue?") is None
    assert wrapping("Why?", "Why?") is None
    assert wrapping("<note>\nx\n</note>\nWhy?", "Why?").text == "<note>\nx\n</note>"


@pytest.mark.parametrize(
    "text",
    [
        block(1),
        "[memory-recall]\nstatus: degraded\nreason: automatic recall unavailable for this turn",
        "[current-time]\n10:00",
        "current_utc: 2026-06-18T10:00:00Z",
        "2026-06-18T10:00:00.123+02:00",
        "- now: 2026-06-18 10:00:00",
        "<system-reminder>the plan changed</system-reminder>",
        "[working-context]\nproject_dir: /p",
        "[slash-command]\n/go",
        "[overlay]\ncalm",
        "[restart-notice]\nrestarted",
        "[knowledge update 1a2b3c4d]\n- a",
        "[knowledge update] This text is put in",
        "[system: keep going]",
        "[active-background-jobs]\n- one",
    ],
)
def test_the_guards_know_what_programs_put_into_a_tail(text, check):
    """002: LORE149 behind a tool's result, LORE151 before the history."""
    assert made_by_program(text)
    assert volatile_before_history(f"You help.\n\n{text}") is not None
    found = check([asked(1), *called(1), said("user", text)])
    assert codes(found) == {"LORE149"}
    head = check([said("system", f"You help.\n\n{text}"), asked(1)])
    assert codes(head) == {"LORE151"}


@pytest.mark.parametrize(
    "text",
    [
        "What does [memory-recall] mean in this log?",
        "Write current_utc_offset into the file, please.",
        "The session began on 2026-06-18T10:00:00Z.",
        'Answer like {"created": "2026-06-18T10:00:00Z"} does.',
        "the build failed, at [system] level",
    ],
)
def test_who_speaks_of_a_label_or_of_a_time_is_no_program(text):
    assert not made_by_program(text)
    assert volatile_before_history(text) is None


def test_a_system_prompt_that_speaks_of_reminders_holds_none():
    assert volatile_before_history("Tool results may hold <system-reminder> tags.") is None


def test_a_label_of_the_settings_is_known_too(check):
    """002: the table of labels is extensible."""
    text = "[my-context]\nbranch: main"
    history = [asked(1), *called(1), said("user", text)]
    assert codes(check(history)) == set()
    named = '[check]\ntail_labels = ["[my-context]"]\n'
    assert codes(check(history, settings=named)) == {"LORE149"}
    assert codes(check([said("system", f"You help.\n{text}"), asked(1)], settings=named)) == {"LORE151"}


@pytest.mark.parametrize("label", ["", " x", "a\nb", "x" * 101])
def test_a_label_that_cannot_be_one_is_refused(label, desk, capsys):
    (desk / "lore.toml").write_text(f"[check]\ntail_labels = [{json.dumps(label)}]\n")
    assert main(["check", "."]) == 2
    assert "tail_labels" in capsys.readouterr().err


def test_what_the_layout_writes_is_in_the_table():
    """One table: each part of a context that has a label is known by it, and no other."""
    from msgspec import Raw  # noqa: PLC0415

    from lore.model.state import FoldedSession  # noqa: PLC0415

    context = {
        "memory_recall": "m", "current_time": "10:00", "working_context": "w", "slash_command": "/go", "overlay": "o",
        "restart_notice": "r",
    }  # fmt: skip
    text = layout.tail_of(FoldedSession(id="s"), Raw(json.dumps(context).encode()), authority=False).text
    assert [label.holds for label in labelled(text)] == [
        "recalled memory", "a clock", "the working context", "a slash command", "an overlay", "a restart notice",
    ]  # fmt: skip
    quoted = layout.tail_of(FoldedSession(id="s"), Raw(json.dumps(context).encode()), authority=True).text
    assert labelled(quoted)[0].holds == "quoted data"
    assert set(labels.LABELS.values()) < {*labels.Holds.__args__}
