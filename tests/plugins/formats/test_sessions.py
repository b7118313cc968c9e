"""`lore sessions` with sessions that are folders."""

from cli.running import lore, put
from plugins.formats import kimi_session, openhands


def rows():
    return lore("sessions", "--json").json["sessions"]


def test_session_folders_are_listed():
    home = "home/.kimi/sessions/893adb7f1ae87ab2931fa12476da025c/s-1"
    for folder in (home, f"{home}/subagents/a1"):
        for name, data in kimi_session.plain().files().items():
            put(f"{folder}/{name}", data)
    put("home/.kimi/kimi.json", {"work_dirs": [{"path": "/code/other"}, {"path": "/code/app"}]})
    talk = openhands.plain()
    for name, data in talk.files().items():
        put(f"home/.openhands/conversations/c-1/{name}", data)
    found = {row["agent"]: (row["requests"], row["copied"], row["read_tokens"], row["project"]) for row in rows()}
    assert found == {"kimi-cli": (2, 2, 9_984, "/code/app"), "openhands": (2, 0, 9_000, None)}  # the subagent is a copy
    put("home/.kimi/kimi.json", b"[")
    assert {row["project"] for row in rows()} == {None}
