"""How lists of tools, and prompts known by hash, differ."""

import pytest

from helpers.each import each
from lore.model.differences import HashesMoved, ToolsChanged
from lore.model.events import PromptHashes
from lore.prefix.tools import NAMED, explain_hashes
from model.making import body, dumps
from prefix.pairs import OTHER_TOOL, TOOL, codes, explain

DEFERRED = {**OTHER_TOOL, "defer_loading": True}
SEARCHED = [
    {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "tool_search", "input": {}},
     {"type": "tool_search_tool_result", "tool_use_id": "s", "content": {"type": "tool_search_tool_search_result",
      "tool_references": [{"type": "tool_reference", "tool_name": "write"}]}}]},
    {"role": "user", "content": "Go on."},
]  # fmt: skip


@each("tools, new_tools, expected", [
    ([TOOL, OTHER_TOOL], [OTHER_TOOL, TOOL], ["LORE102"]),
    ([TOOL], [TOOL, OTHER_TOOL], ["LORE103"]),
    ([TOOL, OTHER_TOOL], [OTHER_TOOL], ["LORE103"]),
    ([TOOL], [], ["LORE103"]),
    ([TOOL], [{**TOOL, "description": "Reads any file."}], ["LORE104"]),
    ([{**TOOL, "input_schema": {"minimum": 1}}], [{**TOOL, "input_schema": {"minimum": 1.0}}], ["LORE106"]),
    ([TOOL, OTHER_TOOL], [OTHER_TOOL, {**TOOL, "description": "Reads any file."}], ["LORE102", "LORE104"]),
])  # fmt: skip
def test_each_change_of_tools_has_its_code(tools, new_tools, expected):
    assert codes(body("x", tools=tools), body("x", tools=new_tools)) == expected


def test_changed_definition_is_quoted():
    tools = [{**TOOL, "description": f"Tasks: https://a.example/session_{name}"} for name in ("01Fh", "01Nm")]
    (cause,) = explain(*(body("x", tools=[OTHER_TOOL, tool]) for tool in tools))
    assert ["01Fh" in cause.evidence.before, "01Nm" in cause.evidence.after] == [True, True]


def test_reordered_and_respelled_tools_have_both_causes():
    reordered = dumps(body("x", tools=[OTHER_TOOL, TOOL])).replace(b'"Writes', b'"\\u0057rites')
    assert codes(dumps(body("x", tools=[TOOL, OTHER_TOOL])), reordered) == ["LORE102", "LORE106"]


def test_a_deferred_tool_is_outside_the_prefix():
    assert codes(body("x", tools=[TOOL]), body("x", "y", tools=[TOOL, DEFERRED])) == []
    loaded = body("x", *SEARCHED, "y", tools=[TOOL, OTHER_TOOL])
    assert codes(body("x", *SEARCHED, tools=[TOOL, DEFERRED]), loaded) == ["LORE124"]


DIALECT_TOOLS = {
    "openai-chat": lambda name: {"tools": [{"type": "function", "function": {"name": name}}], "messages": []},
    "openai-responses": lambda name: {"tools": [{"type": "web_search"}, {"type": "function", "name": name}]},
    "gemini": lambda name: {"tools": [{"googleSearch": {}}, {"functionDeclarations": [{"name": name}]}]},
    "bedrock": lambda name: {"toolConfig": {"tools": [{"toolSpec": {"name": name}}]}},
}


@pytest.mark.parametrize("dialect", DIALECT_TOOLS)
def test_tools_of_every_dialect_have_names(dialect):
    make = DIALECT_TOOLS[dialect]
    cause = explain(make("a"), make("b"), dialect=dialect)[0]
    assert (cause.code, cause.evidence) == ("LORE103", ToolsChanged(added=("b",), removed=("a",)))


def test_changed_tools_name_their_mcp_servers():
    many = [{**TOOL, "name": f"mcp__hub__{number:03}"} for number in range(70)]
    previous = body("x", tools=[TOOL, {**TOOL, "name": "mcp__git_hub__list"}])
    evidence = explain(previous, body("x", tools=[TOOL, *many]))[0].evidence
    assert (evidence.removed, evidence.servers) == (("mcp__git_hub__list",), ("hub", "git_hub"))
    assert (evidence.added, evidence.unnamed) == (tuple(tool["name"] for tool in many[:NAMED]), 6)
    assert "mcp__hub__004 and 59 more; removed mcp__git_hub__list; and 6 more" in evidence.sentence()


HASHED_TOOLS = (("bash", "a1"), ("view", "b1"), ("grep", "c1"))
HASHED_SYSTEM = (("identity", "s1"), ("environment_context", "s2"))
POINTS = ((0, "m0"), (3, "m3"), (6, "m6"))
HASHES = PromptHashes(HASHED_TOOLS, HASHED_SYSTEM, POINTS)


@each("current, code, evidence", [
    (PromptHashes((*HASHED_TOOLS, ("edit", "d1"))), "LORE103", HashesMoved("tools", 2, added=("edit",))),
    (PromptHashes(HASHED_TOOLS[:2]), "LORE103", HashesMoved("tools", 2, removed=("grep",))),
    (PromptHashes((("bash", "a2"), *HASHED_TOOLS[1:])), "LORE104", HashesMoved("tools", 2, changed=("bash",))),
    (PromptHashes(HASHED_TOOLS[::-1]), "LORE102", HashesMoved("tools", 2, reordered=3)),
    (PromptHashes(system=(HASHED_SYSTEM[0], ("environment_context", "s9"))), "LORE100",
     HashesMoved("system", 2, changed=("environment_context",))),
    (PromptHashes(system=HASHED_SYSTEM[::-1]), "LORE100", HashesMoved("system", 2, reordered=2)),
    (PromptHashes(points=((0, "m0"), (3, "x"), (6, "y"), (9, "z"))), "LORE100",
     HashesMoved("messages", 2, message=3)),
])  # fmt: skip
def test_changed_hashes_name_what_moved(current, code, evidence):
    (cause,) = explain_hashes(HASHES, current, 2)
    assert (cause.code, cause.evidence, cause.strength) == (code, evidence, "strong")


def test_equal_or_missing_hashes_are_no_cause():
    assert explain_hashes(HASHES, PromptHashes(HASHED_TOOLS, HASHED_SYSTEM, (*POINTS, (9, "m9"))), 1) == ()
    assert explain_hashes(HASHES, PromptHashes(points=((9, "m9"),)), 1) == ()


def test_hash_causes_follow_the_order_of_the_prompt():
    current = PromptHashes((("bash", "a2"), *HASHED_TOOLS[1:], ("edit", "d")), HASHED_SYSTEM[:1], ((0, "x"),))
    sections = [cause.section for cause in explain_hashes(HASHES, current, 1)]
    assert sections == ["tools", "tools", "system", "messages"]


AGENTS = ["finder: finds files", "planner: plans work", "tester: writes tests"]


@each("agents, shuffled", [
    (AGENTS[::-1], True), ([*AGENTS[:2], "writer: writes docs"], False),
    ([*AGENTS[:2], "tester; writes tests!"], False),  # other punctuation, the same order
])  # fmt: skip
def test_list_in_a_tool_that_is_shuffled_is_named(agents, shuffled):
    tools = [
        {**TOOL, "description": "\n".join(listed), "input_schema": {"enum": [line[:6] for line in listed]}}
        for listed in (AGENTS, agents)
    ]
    (cause,) = explain(*(body("Go.", tools=[tool]) for tool in tools))
    assert (cause.code, cause.evidence.shuffled) == ("LORE104", shuffled)
