"""Tools with `defer_loading: true` are outside the prefix until they are loaded into the list."""

import pytest

from judge.captures import asks, break_codes, call, judged, text, tool, usage

ONE = text("user", "Find the bug. " * 60)
TWO = (ONE, text("assistant", "I look into it."), text("user", "Go on. " * 60))
OWN = [tool("ls"), tool("cat")]
LATE = [tool(f"mcp__db__{name}", defer_loading=True) for name in ("read", "write")]


def on(messages, tools):
    return {**asks(*messages, tools=()), "tools": tools}


@pytest.mark.parametrize("turned", [False, True], ids=["loaded", "put off"])
def test_deferred_tool_put_in_list_moves_the_rest(tmp_path, turned):
    loaded = [*OWN, tool("mcp__db__read"), LATE[1]]
    before, after = (loaded, OWN + LATE) if turned else (OWN + LATE, loaded)
    verdicts, _ = judged(
        tmp_path, call(0, on((ONE,), before), usage(0, 7000)), call(10, on(TWO, after), usage(0, 7200))
    )
    assert break_codes(verdicts[1]) == ["LORE124"]
    assert getattr(verdicts[1].causes[0].evidence, "put_off" if turned else "loaded") == ("mcp__db__read",)


def test_undeferred_new_tool_changes_the_list(tmp_path):
    verdicts, _ = judged(
        tmp_path,
        call(0, on((ONE,), OWN), usage(0, 7000)),
        call(10, on(TWO, [*OWN, tool("mcp__db__read", defer_loading=False)]), usage(0, 7200)),
    )
    assert break_codes(verdicts[1]) == ["LORE103"]


def test_break_with_deferred_tools_keeps_its_body_path(tmp_path):
    verdicts, _ = judged(
        tmp_path,
        call(0, on((ONE,), LATE + OWN), usage(0, 7000)),
        call(10, on(TWO, [*LATE, tool("grep"), *OWN]), usage(0, 7200)),
    )
    (cause,) = verdicts[1].causes
    assert (cause.code, cause.path) == ("LORE103", "tools[2]")
