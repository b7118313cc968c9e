"""What changed inside messages: blocks that are gone, moved, rewritten or rendered again, as agents send them."""

import json

import pytest

from helpers.each import each
from helpers.states import step
from lore.model.codes import fix_of
from lore.model.differences import ResultSentEarly, WrapperGone
from lore.model.state import FoldedSession
from lore.prefix.causes import find_causes
from lore.prefix.overlap import compare_prompts
from lore.prompt.assemble import Assembler
from lore.prompt.dialects import DIALECTS
from model.making import append, assistant, body, call, event, started
from model.making import user as user_item
from prefix.pairs import codes, explain, model, text, tool_result, tool_use, user

THOUGHT = {"type": "thinking", "thinking": "The parser indexes an empty text.", "signature": "EqQBCgIYAhIM"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
REMINDER = "<system-reminder>\nThe task list is empty.\n</system-reminder>"
FIRST = user("Repair the parser in a.py, please.")
READ = (model(THOUGHT, "I read it.", tool_use()), user(tool_result()))
DONE, NEXT = model("It is repaired: an empty text gives None."), user("Then write a test for it.")
PLAN_MODE = "The user switched to plan mode."

MESSAGES = {
    "reminder block after a result is gone": (
        "LORE111", [FIRST, READ[0], user(tool_result(), REMINDER)], [FIRST, *READ, DONE, NEXT],
    ),
    "thinking has another signature": (
        "LORE115",
        [FIRST, *READ], [FIRST, model({**THOUGHT, "signature": "Ab"}, "I read it.", tool_use()), READ[1], DONE, NEXT],
    ),
    "thinking is gone": ("LORE115", [FIRST, *READ], [FIRST, model("I read it.", tool_use()), READ[1], DONE, NEXT]),
    "inline thinking is gone": (
        "LORE115",
        [FIRST, model("<think>\nAn empty text.\n</think>\n\nI read it.", tool_use()), READ[1]],
        [FIRST, model("I read it.", tool_use()), READ[1], DONE, NEXT],
    ),
    "block of inline thinking is gone": (
        "LORE115",
        [FIRST, model("<think>An empty text.</think>\n", tool_use()), READ[1]],
        [FIRST, model(tool_use()), READ[1], DONE, NEXT],
    ),
    "answer differs beside inline thinking": (
        "LORE100",
        [FIRST, model("<think>An empty text.</think>I read it.", tool_use()), READ[1]],
        [FIRST, model("I read all of it.", tool_use()), READ[1], DONE, NEXT],
    ),
    "result is shorter": ("LORE117", [FIRST, *READ], [FIRST, READ[0], user(tool_result("[cleared]")), DONE, NEXT]),
    "long result with type last": (
        "LORE117", *([FIRST, user(dict(reversed(tool_result(word * 500).items())))] for word in ("l", "s")),
    ),
    "picture became text": (
        "LORE118", [user("See:", PICTURE), DONE, NEXT], [user("See:", "[image removed]"), DONE, NEXT],
    ),
    "message with a picture became a text": (
        "LORE118", [FIRST, *READ, user("See:", PICTURE), DONE], [FIRST, *READ, user("[image removed] See:"), DONE],
    ),
    "picture in a result became text": (
        "LORE118",
        [FIRST, READ[0], user(tool_result([PICTURE]))],
        [FIRST, READ[0], user(tool_result([text("[image omitted]")])), DONE, NEXT],
    ),
    "arguments in another order": (
        "LORE105",
        [FIRST, model(tool_use({"path": "a", "lines": 2})), user(tool_result())],
        [FIRST, model(tool_use({"lines": 2, "path": "a"})), user(tool_result()), DONE, NEXT],
    ),
    "result became a block": (
        "LORE112", [FIRST, *READ, DONE], [FIRST, READ[0], user(tool_result([text(tool_result()["content"])])), DONE],
    ),
    "result gained a member": (
        "LORE117",
        [FIRST, *READ, DONE],
        [FIRST, READ[0], user(tool_result([text(tool_result()["content"], citations=[1])])), DONE],
    ),
    "answer about a directory tree": (
        "LORE100",
        [FIRST, model("Read the repository structure:\n\n1. Open it."), NEXT],
        [FIRST, model("Read the repository structure to see:\n\n1. Shut it."), NEXT, DONE],
    ),
}  # fmt: skip


@each("code, previous, current", [*MESSAGES.values()])
def test_changed_message_has_one_cause(code, previous, current):
    assert codes(body(*previous), body(*current)) == [code]


def test_a_result_that_became_text_is_not_rewritten():
    assert "LORE117" not in codes(body("a", user(tool_result("x"))), body("a", user("x y z")))


def test_cleared_results_have_the_recorded_detail():
    previous, current = body("a", user(tool_result("long"))), body("a", user(tool_result("gone")))
    assert explain(previous, current, "LORE117")[0].evidence.cleared == "LORE117"


def test_block_moved_into_system_prompt_is_named():
    system = [text("Be brief.")]
    previous = body("one", {"role": "system", "content": [text(PLAN_MODE)]}, assistant("two"), "three", system=system)
    current = body("one", assistant("two"), "three", assistant("four"), "five", system=[*system, text(PLAN_MODE)])
    assert codes(previous, current) == ["LORE111"]
    assert codes(current, previous)[0] == "LORE111"


def test_reordered_skills_after_a_pause_were_rendered_again():
    skills = [user(f"<system-reminder>\n{names}\n</system-reminder>", "Go.") for names in ("- a\n- b", "- b\n- a")]
    assert codes(body(skills[0], *READ), body(skills[1], *READ, DONE, NEXT), pause=1500.0) == ["LORE123"]


@pytest.mark.parametrize("is_removed", [False, True])
def test_inserted_text_is_quoted_at_its_place(is_removed):
    """The side without the text showed the beginning of its block."""
    sides = [
        body(FIRST, system=f"{'Go on. ' * 9}<memory>\n- tabs{more}\n</memory>") for more in ("", "\n- no comments")
    ]
    (cause,) = explain(*(sides[::-1] if is_removed else sides))
    quotes = sorted(cause.evidence.quoted_change(), key=lambda text: "no comments" in text)
    assert ["- tabs\\n</memory>" in quotes[0], "- tabs\\n- no comments" in quotes[1]] == [True, True]


WINDOW = [user(str(number)) if number % 2 else assistant(str(number)) for number in range(1, 9)]


@each("code, previous, current, fix", [
    ("LORE100", body(FIRST, *WINDOW[1:]), body(FIRST, *WINDOW[3:], NEXT), "Remove old messages rarely"),
    ("LORE108", body(FIRST, model(tool_use(call_id="toolu_1")), user(tool_result(call_id="toolu_1"))),
     body(FIRST, model(tool_use(call_id="toolu_9")), user(tool_result(call_id="toolu_9")), DONE), "Store the ids"),
    ("LORE118", *[body(user({**PICTURE, "source": {**PICTURE["source"], "data": at}}, "See:")) for at in ("a", "b")],
     "Put text that stays the same before"),
    ("LORE100", *[body(user({**PICTURE, "type": "document", "citations": {"enabled": on}})) for on in (False, True)],
     "Switch citations on or off"),
])  # fmt: skip
def test_fix_is_that_of_what_changed(code, previous, current, fix):
    cause = next(cause for cause in explain(previous, current) if cause.code == code)
    assert (cause.code, fix_of(code, "author", detail=cause.evidence.fix_detail())[: len(fix)]) == (code, fix)


def test_differences_beyond_the_limit_are_counted():
    previous, current = ([f"{number} {word} of it" for number in range(60)] for word in ("one", "two"))
    (cause,) = explain(body("x", *previous), body("x", *current))
    assert (cause.code, cause.skipped) == ("LORE100", 12)


# Text at the end of a message that is gone in the next request


@pytest.mark.parametrize(
    "ending", ["\n\n<env>\nOpen file: a.py\n</env>", "\n" + REMINDER, "\n\nOpen files: a.py, b.py", " [mode: plan]"]
)
def test_removed_end_of_a_message_is_named(ending):
    cause = explain(body(FIRST, user("Write a test." + ending)), body(FIRST, user("Write a test."), DONE, NEXT))[0]
    assert cause.code == "LORE111"
    assert isinstance(cause.evidence, WrapperGone)
    assert cause.evidence.excerpt == ending.strip()


def test_a_user_may_shorten_the_last_message():
    previous, current = body(FIRST, DONE, user("Write a test. Run it.")), body(FIRST, DONE, user("Write a test."))
    assert codes(previous, current) == ["LORE100"]


def test_reminder_at_end_of_result_is_named():
    lasting = [FIRST, READ[0], user(tool_result("ok")), DONE, NEXT]
    assert codes(body(FIRST, READ[0], user(tool_result(f"ok\n\n{REMINDER}"))), body(*lasting)) == ["LORE111"]
    assert codes(body(FIRST, READ[0], user(tool_result("ok\nwith all its details"))), body(*lasting)) == ["LORE117"]


def test_results_in_another_order_have_moved():
    """They were called removed, although each of them was sent again."""
    results = [{**tool_result(f"output {number}"), "tool_use_id": f"c{number}"} for number in range(2)]
    cause = explain(body(FIRST, READ[0], user(*results)), body(FIRST, READ[0], user(*results[::-1]), DONE, NEXT))[0]
    assert (cause.code, cause.evidence.change) == ("LORE100", "moved")


@pytest.mark.parametrize(("addition", "code"), [
    ("\n<tokens_left>9,000 tokens left</tokens_left>", "LORE109"),
    ("\n<context_left>9000</context_left>", "LORE109"),
    ("\nCurrent time: 09:14:05", "LORE101"),
    ("\nRequest id: req_8f3a2b1c", "LORE108"),
    ("\nAlways answer in English.", "LORE100"),
])  # fmt: skip
def test_volatile_text_added_to_system_is_named(addition, code):
    """An agent added a count of the tokens left with each request, and kept the old ones."""
    system = "You are an agent.\nUse the tools."
    assert codes(body("a", system=system), body("a", assistant("b"), "c", system=system + addition)) == [code]


def test_volatile_block_added_to_system_is_named():
    """An agent added a block with a count of the tokens left in each request, and kept the old ones."""
    counts = [f"<system_warning>Token usage: {used}/200000; {200_000 - used} remaining</system_warning>"
              for used in (12_000, 15_400)]  # fmt: skip
    before, after = ([text("You are an agent.")] + [text(count) for count in counts[:size]] for size in (1, 2))
    assert codes(body("a", system=before), body("a", assistant("b"), "c", system=after)) == ["LORE109"]


def test_block_of_white_space_is_named():
    """A client adds such a block for a breakpoint, and removes it when it sets the breakpoint elsewhere."""
    (cause,) = explain(body(user("Repair it.", " "), DONE, NEXT), body(user("Repair it."), DONE, NEXT, DONE, NEXT))
    assert (cause.code, cause.evidence.topic, cause.evidence.fix_detail()) == ("LORE100", *["white-space"] * 2)


# Other dialects


def say(role, words):
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


ASKED, WRITTEN = say("user", "Repair the parser."), say("assistant", "It is repaired.")
SHELL = [
    {"type": "function_call", "name": "shell", "arguments": json.dumps({"command": ["cat", "a.py"]}), "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": "def parse(text): ..."},
]
REASONING = {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "gAAAAABo"}
WORKED = [ASKED, REASONING, *SHELL, WRITTEN]
SECOND = say("user", "Then write a test.")


@pytest.mark.parametrize(("items", "kind"), [
    ([{key: value for key, value in item.items() if value is not None} for item in WORKED], "expected"),
    ([{**item, "id": f"item_{number}"} for number, item in enumerate(WORKED)], "unattributable"),
], ids=["null left out", "item ids"])  # fmt: skip
def test_responses_items_sent_back_differ_in_form(items, kind):
    (cause,) = explain({"input": WORKED}, {"input": [*items, SECOND]}, dialect="openai-responses")
    assert (cause.code, cause.kind) == ("LORE106", kind)


def chat_call(call_id, arguments='{"path":"a.py","lines":40}'):
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": arguments}}


def chat(*calls):
    """A chat in which the model made these calls, each answered."""
    results = [
        {"role": "tool", "tool_call_id": tool_call["id"], "content": "def parse(text): ..."} for tool_call in calls
    ]
    answer = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    return {"messages": [{"role": "user", "content": "Repair it."}, answer, *results]}


def test_renamed_calls_of_a_chat_are_ids():
    original, renamed = chat(chat_call("c1"), chat_call("c2")), chat(chat_call("a1"), chat_call("a2"))
    assert codes(original, renamed, dialect="openai-chat") == ["LORE108"]


def test_renamed_calls_before_new_ones_are_ids():
    """The number of messages differs, and JSON without white space is one word: renamed calls counted as removed."""
    steps = [
        [message for n in range(2 + (name == "a")) for message in chat(chat_call(f"{name}{n}"))["messages"][1:]]
        for name in "ca"
    ]
    bodies = [{"messages": [{"role": "user", "content": "Repair it."}, *messages]} for messages in steps]
    assert codes(*bodies, dialect="openai-chat") == ["LORE108"]


def test_reordered_arguments_of_a_chat_are_spelling():
    other = chat_call("c1", '{"lines":40,"path":"a.py"}')
    assert codes(chat(chat_call("c1")), chat(other), dialect="openai-chat") == ["LORE105"]


def test_ids_that_several_calls_share_were_redacted():
    calls = [(f"toolu_{number}", {"path": f"{number}.py"}) for number in range(3)]
    originals = [(model(tool_use(value, name)), user(tool_result(value["path"], name))) for name, value in calls]
    stored = [(model(tool_use(value, "REDACTED")), user(tool_result(value["path"], "REDACTED"))) for _, value in calls]
    bodies = [body(FIRST, *(message for pair in pairs for message in pair)) for pairs in (originals, stored)]
    (cause,) = explain(*bodies)
    assert (cause.code, cause.kind, cause.qualifiers) == ("LORE108", "expected", ("stored-otherwise",))


RESULTS = {
    "openai-chat": lambda words: {"messages": [{"role": "tool", "tool_call_id": "c", "content": words}]},
    "openai-responses": lambda words: {"input": [{"type": "function_call_output", "call_id": "c", "output": words}]},
    "gemini": lambda words: {
        "contents": [{"role": "user", "parts": [{"functionResponse": {"name": "n", "response": {"result": words}}}]}]
    },
    "bedrock": lambda words: {
        "messages": [{"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": words}]}}]}]
    },
}  # fmt: skip


@pytest.mark.parametrize("dialect", RESULTS)
def test_shortened_result_is_found_in_every_dialect(dialect):
    assert codes(RESULTS[dialect]("long"), RESULTS[dialect]("short"), dialect=dialect) == ["LORE117"]


def test_text_and_its_part_are_equal_in_responses():
    bodies = [{"input": [{"role": "user", "content": words}]} for words in ("x", [{"type": "input_text", "text": "x"}])]
    assert codes(*bodies, dialect="openai-responses") == ["LORE112"]


def test_text_input_that_became_a_list_changed_shape():
    asked = [{"role": "user", "content": "How warm is it in Boston?"}]
    bodies = {"input": "How warm is it in Boston?"}, {"input": [*asked, {"role": "assistant", "content": "5 °C."}]}
    (cause,) = explain(*bodies, dialect="openai-responses")
    assert (cause.code, cause.kind, cause.is_harmless) == ("LORE112", "expected", True)


def test_dropped_thought_signature_of_gemini_is_thinking():
    function_call = {"functionCall": {"name": "ls", "args": {"path": "a.py"}}}
    bodies = [
        {"contents": [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [part]}]}
        for part in ({**function_call, "thoughtSignature": "CtQBAcu98Pa"}, function_call)
    ]
    assert codes(*bodies, dialect="gemini") == ["LORE115"]


@pytest.mark.parametrize("dialect", ["anthropic", *RESULTS])
def test_result_after_its_call_was_sent_is_named(dialect):
    late = event("patch_tool_call", call_id="c", status="completed", output="done")
    state, assembler, prompts = FoldedSession(), Assembler(DIALECTS[dialect]), []
    begin = [append(user_item("u")), event("turn_started", turn=1), append(call("t", "c", status="running"))]
    for log_event in (started(), *begin, event("turn_started", turn=2), late, event("turn_started", turn=3)):
        state = step(state, log_event).state
        if type(log_event).__name__ == "TurnStarted":
            prompts.append(assembler.assemble(state, state.main()).prompt)
    (cause,) = find_causes(prompts[1], prompts[2], compare_prompts(prompts[1], prompts[2]), ())
    assert (cause.code, type(cause.evidence)) == ("LORE147", ResultSentEarly)
