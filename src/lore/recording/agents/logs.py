"""Where agents keep their logs: one table, read by every command that is given no path.

In: the environment, the home folder, the platform, the current folder. Out: agents, and the places of their logs; of
the disk nothing but what `existing` and `files_of` look at. Rules: a variable that is set holds alone, else all places
without one; a place whose beginning is unknown (no home) is none. In a path `~` is the home folder, `{data}` is XDG's
data folder (which most agents ask for on every system), `{app}` and `{local}` the folders where the system keeps what
applications save, `{cache}` where they keep what can be made anew, `{folder}` the current one, `*` any one folder.

Sources: the agents' own documents and code, and public readers of their files, 2026-11.
"""

from __future__ import annotations

import fnmatch
import hashlib
import ntpath
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import NamedTuple, TypeAlias

from lore.errors import LoreError, did_you_mean
from lore.files import cache_root
from lore.formats.registry import READERS
from lore.recording import corpus
from lore.recording.agents.projects import md5_name
from lore.recording.base import load_plugins

ProjectName: TypeAlias = Callable[[str], str]  # how an agent calls the folder of a project's logs
_NO_WORD = re.compile(r"[^A-Za-z0-9]")  # JavaScript counts a character beyond 16 bits as two
_PI = re.compile(r"[/\\:]")
_VARIABLE = re.compile(r"\$(\w+)")


def project_name(folder: str) -> str:
    """Return the name under which Claude Code keeps the logs of a folder: its path, all else than words a dash."""
    return _NO_WORD.sub(lambda found: "-" * (1 + (ord(found[0]) > 0xFFFF)), folder)


def _pi_name(folder: str) -> str:
    below = folder[1:] if folder[:1] in ("/", "\\") else folder
    return f"--{_PI.sub('-', below)}--"


def _sha256_name(folder: str) -> str:
    return hashlib.sha256(os.fsencode(folder)).hexdigest()


class Logs(NamedTuple):
    """Where logs lie: `paths` by the rules of the room, the `names` of files there, and in folders below if `deep`.

    `project` names the folder that stands for `*`, else the one below, where each project has one.
    """

    paths: tuple[str, ...]
    names: tuple[str, ...]
    deep: bool = True
    project: ProjectName | None = None


class Agent(NamedTuple):
    """An agent: its name on the command line, what people call it, the formats of its logs, where they lie."""

    name: str
    title: str
    formats: tuple[str, ...]
    logs: tuple[Logs, ...]

    @property
    def is_read(self) -> bool:
        """Whether lore has a reader of its logs."""
        load_plugins()
        return any(name in READERS for name in self.formats)


_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_SERVERS = ("~/.vscode-server", "~/.vscode-server-insiders", "~/.cursor-server", "~/.windsurf-server")


def _extension(name: str) -> tuple[str, ...]:
    """Return where editors of VS Code's kind, and those that run on servers, keep the tasks of an extension."""
    stores = [f"{{app}}/{editor}/User/globalStorage" for editor in _EDITORS]
    return tuple(
        f"{store}/{name}/tasks" for store in (*stores, *(f"{base}/data/User/globalStorage" for base in _SERVERS))
    )


_TASK = ("api_conversation_history.json", "ui_messages.json")
AGENTS: tuple[Agent, ...] = (
    Agent("claude-code", "Claude Code", ("claude-code",), (
        Logs(("$CLAUDE_CONFIG_DIR/projects", "~/.claude/projects", "~/.config/claude/projects"), ("*.jsonl",),
             project=project_name),
    )),
    Agent("codex", "Codex CLI", ("codex",), (
        Logs(("$CODEX_HOME/sessions", "~/.codex/sessions"), ("rollout-*.jsonl", "rollout-*.jsonl.zst")),
        Logs(("$CODEX_HOME/archived_sessions", "~/.codex/archived_sessions"),
             ("rollout-*.jsonl", "rollout-*.jsonl.zst")),
    )),
    Agent("pi", "pi", ("pi",), (
        Logs(("$PI_CODING_AGENT_SESSION_DIR", "$PI_CODING_AGENT_DIR/sessions", "~/.pi/agent/sessions"), ("*.jsonl",),
             project=_pi_name),
        Logs(("~/.openclaw/agents/*/sessions",), ("*.jsonl",)),
    )),
    Agent("oh-my-pi", "oh-my-pi", ("pi",), (Logs(("~/.omp/agent/sessions",), ("*.jsonl",)),)),
    Agent("opencode", "OpenCode", ("opencode",), (
        Logs(("$OPENCODE_DB",), ("*",), deep=False),
        Logs(("{data}/opencode",), ("opencode.db", "opencode-*.db"), deep=False),
        Logs(("{data}/opencode/storage/session",), ("*.json",)),
    )),
    Agent("kilo", "Kilo CLI", ("opencode",), (
        Logs(("$KILO_DB",), ("*",), deep=False),
        Logs(("{data}/kilo",), ("kilo.db", "opencode-*.db"), deep=False),
        Logs(("{data}/kilo/storage/session",), ("*.json",)),
    )),
    Agent("gemini", "Gemini CLI", ("gemini-cli", "gemini-cli-json"), (
        Logs(("$GEMINI_CLI_HOME/.gemini/tmp/*/chats", "~/.gemini/tmp/*/chats"), ("*.json", "*.jsonl"),
             project=_sha256_name),
    )),
    Agent("qwen", "Qwen Code", ("qwen-code",), (
        Logs(("$QWEN_DATA_DIR/projects/*/chats", "$QWEN_HOME/projects/*/chats", "~/.qwen/projects/*/chats"),
             ("*.jsonl",), project=project_name),
    )),
    Agent("copilot", "GitHub Copilot CLI", ("copilot",), (
        Logs(("$COPILOT_HOME/session-state", "~/.copilot/session-state"), ("*.jsonl",)),
    )),
    Agent("cline", "Cline", ("cline", "cline-task"), (
        Logs(_extension("saoudrizwan.claude-dev"), _TASK),
        Logs(("$CLINE_DIR/data/tasks", "~/.cline/data/tasks"), _TASK),
        Logs(("$CLINE_DIR/data/sessions", "~/.cline/data/sessions"), ("*.messages.json",)),
    )),
    Agent("roo", "Roo Code", ("cline", "cline-task"), (Logs(_extension("rooveterinaryinc.roo-cline"), _TASK),)),
    Agent("kilo-code", "Kilo Code (extension)", ("cline", "cline-task"), (
        Logs(_extension("kilocode.kilo-code"), _TASK),
    )),
    Agent("kimi-cli", "Kimi CLI", ("kimi-cli", "kimi-cli-session"), (
        Logs(("$KIMI_SHARE_DIR/sessions", "~/.kimi/sessions"), ("wire.jsonl", "context.jsonl"), project=md5_name),
    )),
    Agent("kimi-code", "Kimi Code", ("kimi-code",), (
        Logs(("$KIMI_CODE_HOME/sessions", "~/.kimi-code/sessions"), ("wire.jsonl",)),
    )),
    Agent("openhands", "OpenHands", ("openhands",), (
        Logs(("$OPENHANDS_CONVERSATIONS_DIR", "$OPENHANDS_PERSISTENCE_DIR/conversations", "~/.openhands/conversations"),
             ("base_state.json",)),
    )),
    Agent("mini-swe-agent", "mini-swe-agent", ("mini-swe-agent",), (
        Logs(("$MSWEA_GLOBAL_CONFIG_DIR", "{app}/mini-swe-agent",
              "{local}/mini-swe-agent/mini-swe-agent"), ("*.traj.json",), deep=False),
    )),
    Agent("goose", "Goose", (), (
        Logs(("$GOOSE_PATH_ROOT/data/sessions", "{data}/goose/sessions", "{app}/Block/goose/data/sessions"),
             ("sessions.db", "*.jsonl"), deep=False),
    )),
    Agent("crush", "Crush", (), (Logs(("{folder}/.crush",), ("crush.db",), deep=False),)),
    Agent("amp", "Amp", (), (Logs(("{data}/amp/threads",), ("T-*.json",), deep=False),)),
    Agent("cursor", "Cursor", (), (
        Logs(("~/.cursor/chats",), ("store.db",)),
        Logs(("{app}/Cursor/User/globalStorage",), ("state.vscdb",), deep=False),
    )),
    Agent("zed", "Zed", (), (
        Logs(("{local}/Zed/threads", "{data}/zed/threads"), ("threads.db",), deep=False),
    )),
    Agent("droid", "Droid", (), (Logs(("~/.factory/sessions",), ("*.jsonl",)),)),
    Agent("grok", "Grok Build", (), (Logs(("$GROK_HOME/sessions", "~/.grok/sessions"), ("updates.jsonl",)),)),
    Agent("vibe", "Mistral Vibe", (), (
        Logs(("$VIBE_HOME/logs/session", "~/.vibe/logs/session"), ("messages.jsonl",)),
    )),
    Agent("codewhale", "CodeWhale", (), (
        Logs(("$CODEWHALE_HOME/sessions", "~/.codewhale/sessions"), ("*.json", "*.jsonl")),
    )),
    Agent("aider", "Aider", ("aider",), (
        Logs(("{folder}",), (".aider.llm.history", ".aider.chat.history.md"), deep=False),
    )),
)  # fmt: skip


class Surroundings(NamedTuple):
    """Where lore runs: `platform` as `sys.platform` names it, `home` empty where there is none."""

    environment: Mapping[str, str]
    home: str
    platform: str
    folder: str

    @property
    def paths(self) -> ModuleType:
        """How paths are joined there."""
        return ntpath if self.platform == "win32" else posixpath

    def roots(self) -> dict[str, str]:
        """Return what the words in braces stand for; empty where nothing says it."""
        join, home, given = self.paths.join, self.home, self.environment.get
        at_home = {name: join(home, *path.split("/")) if home else "" for name, path in _AT_HOME.items()}
        data = given("XDG_DATA_HOME") or at_home["data"]
        if self.platform == "win32":
            app, local = given("APPDATA") or at_home["roaming"], given("LOCALAPPDATA") or at_home["local"]
        elif self.platform == "darwin":
            app = local = at_home["support"]
        else:
            app, local = given("XDG_CONFIG_HOME") or at_home["config"], data
        cache = cache_root(self.environment, home, self.platform)
        return {"~": home, "{data}": data, "{app}": app, "{local}": local, "{cache}": cache, "{folder}": self.folder}


_AT_HOME = {
    "data": ".local/share", "config": ".config", "support": "Library/Application Support",
    "roaming": "AppData/Roaming", "local": "AppData/Local",
}  # fmt: skip


class LogPlace(NamedTuple):
    """A place of an agent's logs; its path may still hold a `*`."""

    agent: Agent
    path: str
    logs: Logs


def places(here: Surroundings, *, project: bool = False) -> Iterator[LogPlace]:
    """Yield where agents keep logs, in the order of the table; with `project` those of the current folder alone."""
    for agent in AGENTS:
        for logs in agent.logs:
            if project and (logs.project is None or not here.folder):
                continue
            for path in resolved(logs.paths, here):
                name = logs.project(here.folder) if project and logs.project is not None else ""
                own = path.replace("*", name) if "*" in path else here.paths.join(path, name)
                yield LogPlace(agent, own if name else path, logs)


def resolved(paths: tuple[str, ...], here: Surroundings) -> list[str]:
    """Return the paths that a row of the table stands for, each once."""
    for path in paths:
        variable = _VARIABLE.match(path)
        value = here.environment.get(variable[1]) if variable is not None else None
        if variable is not None and value:
            if value == "~" or value.startswith(("~/", "~\\")):
                value = here.home + value[1:]
            return [_joined(value, path[variable.end() :], here)]
    roots = here.roots()
    found: dict[str, None] = {}
    for path in paths:
        root, _, below = path.partition("/")
        if roots.get(root):
            found[_joined(roots[root], below, here)] = None
    return list(found)


def _joined(root: str, below: str, here: Surroundings) -> str:
    return here.paths.join(root, *filter(None, below.split("/")))


def agent_named(name: str) -> Agent:
    """Return the agent of this name; raises LoreError where the table has none."""
    known = {agent.name: agent for agent in AGENTS}
    if name not in known:
        raise LoreError(f"no agent is called {name!r}", hint=did_you_mean(name, known, "agents"))
    return known[name]


# the disk


def existing(place: LogPlace) -> list[LogPlace]:
    """Return the folders and files that a place stands for and that are there."""
    base, star, below = place.path.partition("*")
    if not star:
        return [place] if os.path.exists(place.path) else []
    try:
        names = sorted(entry.name for entry in os.scandir(base) if entry.is_dir())
    except (OSError, ValueError):
        return []
    paths = (base + name + below for name in names)
    return [place._replace(path=path) for path in paths if os.path.isdir(path)]


def files_of(place: LogPlace, failed_on: Callable[[str, LoreError], None]) -> Iterator[str]:
    """Yield the logs at a place that is there, in the order of their names."""
    if os.path.isfile(place.path):
        yield place.path
        return
    if place.logs.deep:
        found = corpus.files_below(place.path, failed_on)
    else:
        try:
            found = (os.path.join(place.path, name) for name in sorted(os.listdir(place.path)))
        except OSError as error:
            failed_on(place.path, corpus.unreadable(place.path, error))
            return
    for file in found:
        name = os.path.basename(file)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in place.logs.names) and os.path.isfile(file):
            yield file
