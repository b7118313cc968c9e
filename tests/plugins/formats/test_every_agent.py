"""A home folder with a log of every agent that lore reads: every command works on each of them."""

from pathlib import Path

import pytest

from cli.running import lore, put
from formats import cline, codex, copilot, gemini, kimi, opencode, pi, qwen
from formats.claude import answered, asked, counts, text
from formats.test_deepseek_harness import LINES
from lore.recording.agents import logs as agents
from model.making import dumps
from plugins.formats import kimi_session, openhands
from plugins.formats.test_mini_swe_agent import RUN
from recording.test_opencode_store import written

CLAUDE = [
    asked("u1", "hello"), answered("a1", "m1", text("yes"), "u1", usage=counts(5, 0, 5_000, 2)),
    asked("u2", "more", "a1"), answered("a2", "m2", text("no"), "u2", usage=counts(5, 5_000, 50, 2)),
]  # fmt: skip
STORAGE = ".config/Code/User/globalStorage"
TASK = {"ui_messages.json": cline.simple().ui_messages, "api_conversation_history.json": cline.simple().api_history}
# For each agent: the file of a log, and its content.
LOGS: dict[str, tuple[str, bytes]] = {
    "claude-code": (".claude/projects/-w/a.jsonl", b"".join(dumps(line) + b"\n" for line in CLAUDE)),
    "codex": (".codex/sessions/2026/04/08/rollout-1.jsonl", codex.plain().data()),
    "pi": (".pi/agent/sessions/--w--/1.jsonl", pi.plain().data()),
    "openclaw": (
        ".openclaw/agents/main/sessions/1.jsonl.reset.2026-07-01T00-00-00.000Z",
        pi.plain().data().replace(b'"s-1"', b'"s-3"'),
    ),
    "gemini": (".gemini/tmp/h/chats/session-1.jsonl", gemini.plain().data()),
    "qwen": (".qwen/projects/-w/chats/1.jsonl", qwen.plain().data()),
    "copilot": (".copilot/session-state/1/events.jsonl", copilot.plain().data()),
    "deepseek-harness": (".dsh/sessions/--w--/1.jsonl", b"".join(LINES[:13] + LINES[16:20])),
    "kimi-code": (".kimi-code/sessions/wd/1/agents/main/wire.jsonl", kimi.plain().data()),
    "mini-swe-agent": (".config/mini-swe-agent/a.traj.json", RUN),
    "oh-my-pi": (".omp/agent/sessions/-w/1.jsonl", pi.plain().data().replace(b'"s-1"', b'"s-2"')),
}
FOLDERS: dict[str, tuple[str, dict[str, bytes]]] = {
    "roo": (f"{STORAGE}/rooveterinaryinc.roo-cline/tasks/1", TASK),
    "cline": (f"{STORAGE}/saoudrizwan.claude-dev/tasks/2", TASK),
    "kilo-code": (f"{STORAGE}/kilocode.kilo-code/tasks/3", TASK),
    "kimi-cli": (".kimi/sessions/w/s-1", kimi_session.plain().files()),
    "openhands": (".openhands/conversations/c-1", openhands.plain().files()),
}
STORES = {"opencode": "home/.local/share/opencode/opencode.db", "kilo": "home/.local/share/kilo/kilo.db"}
AGENTS = {*LOGS, *FOLDERS, *STORES}


@pytest.fixture(autouse=True)
def home():
    """All logs, in the home folder of the test."""
    for name, data in LOGS.values():
        put(f"home/{name}", data)
    for folder, files in FOLDERS.values():
        for name, data in files.items():
            put(f"home/{folder}/{name}", data)
    for store in map(Path, STORES.values()):
        store.parent.mkdir(parents=True)
    for store, session in ((STORES["kilo"], "ses_1"), (STORES["opencode"], "ses_2")):
        made = opencode.plain()
        made.info["id"] = session
        written(Path(store), made)


def test_home_holds_every_agent_that_is_read():
    assert {agent.name for agent in agents.AGENTS if agent.is_read} == AGENTS


def test_session_of_each_agent_is_listed():
    found = lore("sessions", "--json").json["sessions"]
    asked = {row["agent"]: (row["requests"] + row["copied"], row["problems"]) for row in found}  # some logs are equal
    assert asked == dict.fromkeys(AGENTS, (2, 0))
    assert all(row["counted"] and row["message"] is None for row in found)


def test_check_without_path_judges_all_logs():
    ran = lore("check")
    assert f"{len(AGENTS)} files, " in ran.out
    lacking = [line for line in ran.out.splitlines() if line.startswith("not recorded in ")]
    names = [
        name for line in lacking for name in line.removeprefix("not recorded in ").partition(" logs: ")[0].split(", ")
    ]
    formats = {agent.formats[-1 if agent.name in FOLDERS else 0] for agent in agents.AGENTS if agent.is_read}
    assert sorted(names) == sorted(formats - {"kimi-code", "deepseek-harness"})  # their logs have both
    assert sum("the system prompt and the schemas of tools" in line for line in lacking) == 1


def test_simulate_reports_the_same_missing_data():
    checked = lore("check", "--json").json["unseen"]
    notes = [note for note in lore("simulate", "--json").json["notes"] if note.startswith("not recorded in ")]
    named = {
        name for note in notes for name in note.removeprefix("not recorded in ").partition(" logs: ")[0].split(", ")
    }
    assert named == {lacking["format"] for lacking in checked}


def test_money_is_summed_by_project():
    named = {row["project"] for row in lore("sessions", "--json").json["sessions"]} - {None}
    groups = {group["name"] for group in lore("simulate", "--json").json["groups"] if group["by"] == "project"}
    assert "/w" in named <= groups
    assert "08" not in groups  # a folder of Codex, named after a day


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_each_command_works_on_each_agent(agent):
    path = STORES.get(agent) or f"home/{(LOGS | FOLDERS)[agent][0]}"
    for command in (
        ["fold"], ["assemble"], ["diff-prefix"], ["simulate"], ["simulate", "--by", "reliability"],
        ["compact", "--dry-run"], ["convert", "--to", "lore"], ["check", "-v"], ["assemble", "--explain"],
        ["fold", "--json"], ["check", "--json"], ["simulate", "--json"], ["diff-prefix", "--json"],
    ):  # fmt: skip
        ran = lore(command[0], path, *command[1:])
        assert (ran.code, bool(ran.out)) == (0, True), (command, ran.err)
    put("own.jsonl", lore("convert", path, "--to", "lore").out.encode())
    turns = [lore("simulate", name, "--json").json["turns"] for name in (path, "own.jsonl")]
    bills = [[turn["billed"] for turn in played if turn["chain"] == "main"] for played in turns]
    assert bills[0] == bills[1]
    assert len(bills[0]) == 2
    noted = [line for line in lore("diff-prefix", path).err.splitlines() if line.startswith("note: not recorded in ")]
    assert len(noted) == (agent not in ("kimi-code", "deepseek-harness"))
    assert lore("store", "import", path, "--store", "sqlite:s.db").code == 0


def test_finding_without_breakpoints_does_not_mention_them():
    made = codex.Rollout().meta().context().user("hello").call("c0").count(30_000, 2_432).result("c0")
    made.call("c1").count(31_000, 29_952).result("c1").call("c2").count(32_000, 30_976).result("c2")
    made.message("assistant", "no").count(33_000, 22_400)
    ran = lore("check", put("log.jsonl", made.data()))
    assert "LORE130" in ran.out
    assert "breakpoint" not in ran.out
