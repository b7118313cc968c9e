"""Where agents keep logs, on each platform; nothing of this machine is looked at but what tests make."""

import pytest

from helpers.each import each
from lore.errors import LoreError
from lore.formats.registry import READERS
from lore.recording.agents.logs import (
    AGENTS,
    Surroundings,
    agent_named,
    existing,
    files_of,
    places,
    project_in,
    project_name,
)

LINUX = Surroundings({}, "/home/me", "linux", "/code/app")
MAC = Surroundings({}, "/Users/me", "darwin", "/code/app")
WINDOWS = Surroundings(
    {"APPDATA": r"C:\Users\me\AppData\Roaming", "LOCALAPPDATA": r"D:\Local"}, r"C:\Users\me", "win32", r"C:\code\app"
)


def paths(agent, surroundings, **options):
    return [place.path for place in places(surroundings, **options) if place.agent.name == agent]


@each("agent, linux, mac, windows", [
    ("claude-code", "/home/me/.claude/projects", "/Users/me/.claude/projects", r"C:\Users\me\.claude\projects"),
    ("opencode", "/home/me/.local/share/opencode", "/Users/me/.local/share/opencode",
     r"C:\Users\me\.local\share\opencode"),
    ("cline", "/home/me/.config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks",
     "/Users/me/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/tasks",
     r"C:\Users\me\AppData\Roaming\Code\User\globalStorage\saoudrizwan.claude-dev\tasks"),
    ("roo", "/home/me/.vscode-server/data/User/globalStorage/rooveterinaryinc.roo-cline/tasks",
     "/Users/me/Library/Application Support/Cursor/User/globalStorage/rooveterinaryinc.roo-cline/tasks",
     r"C:\Users\me\AppData\Roaming\VSCodium\User\globalStorage\rooveterinaryinc.roo-cline\tasks"),
    ("kilo-code", "/home/me/.config/Code - Insiders/User/globalStorage/kilocode.kilo-code/tasks",
     "/Users/me/Library/Application Support/Windsurf/User/globalStorage/kilocode.kilo-code/tasks",
     r"C:\Users\me\AppData\Roaming\Code\User\globalStorage\kilocode.kilo-code\tasks"),
    ("goose", "/home/me/.local/share/goose/sessions",
     "/Users/me/Library/Application Support/Block/goose/data/sessions",
     r"C:\Users\me\AppData\Roaming\Block\goose\data\sessions"),
    ("zed", "/home/me/.local/share/zed/threads", "/Users/me/Library/Application Support/Zed/threads",
     r"D:\Local\Zed\threads"),
    ("crush", "/code/app/.crush", "/code/app/.crush", r"C:\code\app\.crush"),
])  # fmt: skip
def test_each_agent_keeps_its_logs_there(agent, linux, mac, windows):
    assert linux in paths(agent, LINUX)
    assert mac in paths(agent, MAC)
    assert windows in paths(agent, WINDOWS)


@each("agent, variable, path", [
    ("claude-code", "CLAUDE_CONFIG_DIR", "/x/projects"),
    ("codex", "CODEX_HOME", "/x/sessions"),
    ("pi", "PI_CODING_AGENT_DIR", "/x/sessions"),
    ("pi", "PI_CODING_AGENT_SESSION_DIR", "/x"),
    ("openclaw", "OPENCLAW_STATE_DIR", "/x/agents/*/sessions"),
    ("opencode", "XDG_DATA_HOME", "/x/opencode"),
    ("opencode", "OPENCODE_DB", "/x"),
    ("gemini", "GEMINI_CLI_HOME", "/x/.gemini/tmp/*/chats"),
    ("qwen", "QWEN_DATA_DIR", "/x/projects/*/chats"),
    ("copilot", "COPILOT_HOME", "/x/session-state"),
    ("kimi-cli", "KIMI_SHARE_DIR", "/x/sessions"),
    ("kimi-code", "KIMI_CODE_HOME", "/x/sessions"),
    ("openhands", "OPENHANDS_PERSISTENCE_DIR", "/x/conversations"),
    ("cline", "XDG_CONFIG_HOME", "/x/Code/User/globalStorage/saoudrizwan.claude-dev/tasks"),
])  # fmt: skip
def test_set_variable_replaces_default_path_of_agent(agent, variable, path):
    moved, default = paths(agent, LINUX._replace(environment={variable: "/x"})), paths(agent, LINUX)
    assert path in moved
    assert path not in default
    assert paths(agent, LINUX._replace(environment={variable: ""})) == default


def test_codex_home_replaces_the_default_path():
    assert paths("codex", LINUX._replace(environment={"CODEX_HOME": "~/c"})) == [
        "/home/me/c/sessions",
        "/home/me/c/archived_sessions",
    ]


def test_unknown_home_leaves_given_places():
    surroundings = Surroundings({"CODEX_HOME": "/c"}, "", "linux", "/w")
    found_paths = {place.path for place in places(surroundings)}
    assert found_paths == {"/c/sessions", "/c/archived_sessions", "/w/.crush", "/w"}


@pytest.mark.parametrize(
    ("agent", "path"),
    [
        ("claude-code", "/home/me/.claude/projects/-code-app"),
        ("pi", "/home/me/.pi/agent/sessions/--code-app--"),
        ("deepseek-harness", "/home/me/.dsh/sessions/--code-app--"),
        ("qwen", "/home/me/.qwen/projects/-code-app/chats"),
        ("gemini",
         "/home/me/.gemini/tmp/3258da03f40441d611ccdd46949106a95bf2f372b7f5b7efde7158a33ae5ac48/chats"),
        ("kimi-cli", "/home/me/.kimi/sessions/893adb7f1ae87ab2931fa12476da025c"),
    ],
)  # fmt: skip
def test_agent_has_a_folder_for_the_project(agent, path):
    assert path in paths(agent, LINUX, project=True)


def test_agent_without_project_folders_has_no_project_place():
    assert paths("codex", LINUX, project=True) == []


def test_a_project_is_named_by_its_path():
    assert project_name("/home/me/my_app v1.2") == "-home-me-my-app-v1-2"
    assert project_name("/home/mü/🙂") == "-home-m----"
    assert paths("pi", WINDOWS, project=True) == [r"C:\Users\me\.pi\agent\sessions\--C--code-app--"]
    folder = LINUX._replace(folder=r"G:\\dsh\my app~\ü🙂")
    assert paths("deepseek-harness", folder, project=True) == [
        "/home/me/.dsh/sessions/--G-dsh-my~0020app~007E-~00FC~D83D~DE42--"
    ]


def test_folder_of_a_call_is_no_project():
    call = b'{"id":"t1","name":"run_shell_command","args":{"command":"make","directory":"packages/core"}'
    assert project_in(b'{"sessionId":"s1","messages":[{"type":"gemini","toolCalls":[' + call) is None
    assert project_in(b'{"info":{"id":"s1","directory":"/code/app"},"messages":[' + call) == "/code/app"


def test_every_agent_is_named_once():
    names = [agent.name for agent in AGENTS]
    assert len(set(names)) == len(names)


def test_agent_without_a_reader_is_known():
    assert (agent_named("codex").is_read, agent_named("cursor").is_read) == (True, False)


def test_misspelled_agent_gets_the_nearest_name():
    with pytest.raises(LoreError) as caught:
        agent_named("codx")
    assert caught.value.hint == "did you mean 'codex'?"


def test_what_is_there_is_found(tmp_path):
    surroundings = Surroundings({}, str(tmp_path), "linux", str(tmp_path))
    for name in (
        ".gemini/tmp/abc/chats/session-1.json", ".gemini/tmp/abc/logs.json", ".gemini/tmp/def/other.txt",
        ".codex/sessions/2026/01/02/rollout-1.jsonl.zst", ".codex/sessions/2026/01/02/notes.md",
        ".local/share/opencode/opencode.db", ".local/share/opencode/opencode.db-wal",
        ".local/share/opencode/snapshot/deep/opencode.db",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found_paths = [
        (place.agent.name, file.removeprefix(f"{tmp_path}/"))
        for place in places(surroundings)
        for there in existing(place)
        for file in files_of(there, lambda _place, error: pytest.fail(str(error)))
    ]
    assert found_paths == [
        ("codex", ".codex/sessions/2026/01/02/rollout-1.jsonl.zst"),
        ("opencode", ".local/share/opencode/opencode.db"),
        ("gemini", ".gemini/tmp/abc/chats/session-1.json"),
    ]


def test_formats_of_agents_are_registered():
    """Agents without a reader have no format at all, so that a misspelled one is seen."""
    unread = {agent.name for agent in AGENTS if not agent.is_read}
    unread_agents = {agent.name for agent in AGENTS if not agent.formats}
    assert unread_agents <= unread
    assert {"claude-code", "codex"} <= set(READERS)
