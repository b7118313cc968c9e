"""Where agents keep their logs, and the folders and titles of their sessions: one table for all commands.

A variable that is set replaces all places without one. In a path `~` is the home folder, `{data}` XDG's data folder
(most agents use it on every system), `{app}` and `{local}` the system's folders for data of applications, `{cache}`
its folder for caches, `{folder}` the current folder, `*` any one folder; a place without a known root is left out.
Only `existing`, `files_of`, the functions `…_beside` and what calls these look at the disk.

Sources: the agents' own documents and code, and public readers of their files, 2026-11.
"""

from __future__ import annotations

import fnmatch
import ntpath
import os
import posixpath
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import ModuleType
from typing import NamedTuple, TypeAlias

from lore.errors import LoreError, did_you_mean
from lore.files import cache_root
from lore.formats.beginning import SPACE
from lore.formats.lines import nonblank_lines
from lore.formats.registry import READERS
from lore.model.deferred import sha256
from lore.model.jsonslice import raw_members
from lore.recording import corpus
from lore.recording.agents import beside
from lore.recording.agents.beside import KeptBeside, decoded_path, md5_name, text_at_path
from lore.recording.base import load_plugins

ProjectName: TypeAlias = Callable[[str], str]  # a project's folder -> the name of the folder with its logs
_NO_WORD = re.compile(r"[^A-Za-z0-9]")  # JavaScript counts a character beyond 16 bits as two
_PI = re.compile(r"[/\\:]")
_SEPARATORS, _UNSAFE = re.compile(r"[/\\:]+"), re.compile(r"[^A-Za-z0-9._-]+")


def project_name(folder: str) -> str:
    """Return the name of Claude Code's folder for a project: its path, with dashes for all but letters and digits."""
    return _NO_WORD.sub(lambda match: "-" * (1 + (ord(match[0]) > 0xFFFF)), folder)


def _pi_name(folder: str) -> str:
    below = folder[1:] if folder[:1] in ("/", "\\") else folder
    return f"--{_PI.sub('-', below)}--"


def _dsh_name(folder: str) -> str:
    def escape(unsafe: re.Match[str]) -> str:
        return "~" + unsafe[0].encode("utf-16-be", "surrogatepass").hex("~", 2).upper()

    slug = _SEPARATORS.sub("-", folder).lstrip("-") or "root"
    slug = _UNSAFE.sub(escape, slug)[:251]
    return f"--{slug}--"


def sha256_name(folder: str) -> str:
    """Return the name of Gemini CLI's folder for a project: the digest of its path."""
    return sha256(os.fsencode(folder))


class Logs(NamedTuple):
    """A kind of logs of an agent."""

    paths: tuple[str, ...]
    names: tuple[str, ...]  # patterns for the names of files
    deep: bool = True  # whether folders below hold logs, too
    project: ProjectName | None = None  # names the folder of a project, at `*` or below; None: projects share one


class Agent(NamedTuple):
    """An agent."""

    name: str  # on the command line
    title: str  # for people
    formats: tuple[str, ...]  # of its logs
    logs: tuple[Logs, ...]
    folder_at: tuple[tuple[str, ...], ...] = ()  # where a record names the session's folder
    beside: Callable[[str], KeptBeside] | None = None  # reads the files that the agent keeps next to a log

    @property
    def is_read(self) -> bool:
        """Whether lore has a reader of its logs."""
        load_plugins()
        return any(name in READERS for name in self.formats)


_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_SERVERS = ("~/.vscode-server", "~/.vscode-server-insiders", "~/.cursor-server", "~/.windsurf-server")


def _extension(name: str) -> tuple[str, ...]:
    """Return where VS Code and its forks keep the tasks of an extension, here and on servers."""
    stores = [f"{{app}}/{editor}/User/globalStorage" for editor in _EDITORS]
    return tuple(
        f"{store}/{name}/tasks" for store in (*stores, *(f"{base}/data/User/globalStorage" for base in _SERVERS))
    )


_TASK = ("api_conversation_history.json", "ui_messages.json")
AGENTS: tuple[Agent, ...] = (
    Agent("claude-code", "Claude Code", ("claude-code",), (
        Logs(("$CLAUDE_CONFIG_DIR/projects", "~/.claude/projects", "~/.config/claude/projects"), ("*.jsonl",),
             project=project_name),
    ), folder_at=(("cwd",),)),
    Agent("codex", "Codex CLI", ("codex",), (
        Logs(("$CODEX_HOME/sessions", "~/.codex/sessions"), ("rollout-*.jsonl", "rollout-*.jsonl.zst")),
        Logs(("$CODEX_HOME/archived_sessions", "~/.codex/archived_sessions"),
             ("rollout-*.jsonl", "rollout-*.jsonl.zst")),
    ), folder_at=(("payload", "cwd"),), beside=beside.of_codex),
    Agent("pi", "pi", ("pi",), (
        Logs(("$PI_CODING_AGENT_SESSION_DIR", "$PI_CODING_AGENT_DIR/sessions", "~/.pi/agent/sessions"), ("*.jsonl",),
             project=_pi_name),
    ), folder_at=(("cwd",),)),
    Agent("openclaw", "OpenClaw", ("pi",), (
        Logs(("$OPENCLAW_STATE_DIR/agents/*/sessions", "~/.openclaw/agents/*/sessions"),
             ("*.jsonl", "*.jsonl.reset.*", "*.jsonl.deleted.*")),
    )),
    Agent("oh-my-pi", "oh-my-pi", ("pi",), (Logs(("~/.omp/agent/sessions",), ("*.jsonl",)),)),
    Agent("opencode", "OpenCode", ("opencode",), (
        Logs(("$OPENCODE_DB",), ("*",), deep=False),
        Logs(("{data}/opencode",), ("opencode.db", "opencode-*.db"), deep=False),
        Logs(("{data}/opencode/storage/session",), ("*.json",)),
    ), folder_at=(("info", "directory"), ("directory",))),
    Agent("kilo", "Kilo CLI", ("opencode",), (
        Logs(("$KILO_DB",), ("*",), deep=False),
        Logs(("{data}/kilo",), ("kilo.db", "opencode-*.db"), deep=False),
        Logs(("{data}/kilo/storage/session",), ("*.json",)),
    )),
    Agent("gemini", "Gemini CLI", ("gemini-cli", "gemini-cli-json"), (
        Logs(("$GEMINI_CLI_HOME/.gemini/tmp/*/chats", "~/.gemini/tmp/*/chats"), ("*.json", "*.jsonl"),
             project=sha256_name),
    ), beside=beside.of_gemini),
    Agent("qwen", "Qwen Code", ("qwen-code",), (
        Logs(("$QWEN_DATA_DIR/projects/*/chats", "$QWEN_HOME/projects/*/chats", "~/.qwen/projects/*/chats"),
             ("*.jsonl",), project=project_name),
        Logs(("$QWEN_DATA_DIR/projects/*/subagents", "$QWEN_HOME/projects/*/subagents", "~/.qwen/projects/*/subagents"),
             ("agent-*.jsonl",), project=project_name),
    ), folder_at=(("cwd",),)),
    Agent("copilot", "GitHub Copilot CLI", ("copilot",), (
        Logs(("$COPILOT_HOME/session-state", "~/.copilot/session-state"), ("*.jsonl",)),
    ), folder_at=(("data", "context", "cwd"),), beside=beside.of_copilot),
    Agent("cline", "Cline", ("cline", "cline-task"), (
        Logs(_extension("saoudrizwan.claude-dev"), _TASK),
        Logs(("$CLINE_DIR/data/tasks", "~/.cline/data/tasks"), _TASK),
        Logs(("$CLINE_DIR/data/sessions", "~/.cline/data/sessions"), ("*.messages.json",)),
    ), beside=beside.of_task),
    Agent("roo", "Roo Code", ("cline", "cline-task"), (
        Logs(_extension("rooveterinaryinc.roo-cline"), _TASK),
    ), beside=beside.of_task),
    Agent("kilo-code", "Kilo Code (extension)", ("cline", "cline-task"), (
        Logs(_extension("kilocode.kilo-code"), _TASK),
    ), beside=beside.of_task),
    Agent("kimi-cli", "Kimi CLI", ("kimi-cli", "kimi-cli-session"), (
        Logs(("$KIMI_SHARE_DIR/sessions", "~/.kimi/sessions"), ("wire.jsonl", "context.jsonl"), project=md5_name),
    ), beside=beside.of_kimi_cli),
    Agent("kimi-code", "Kimi Code", ("kimi-code",), (
        Logs(("$KIMI_CODE_HOME/sessions", "~/.kimi-code/sessions"), ("wire.jsonl",)),
    ), beside=beside.of_kimi_code),
    Agent("deepseek-harness", "DeepSeek Harness", ("deepseek-harness",), (
        Logs(("$DSH_HOME/sessions", "~/.dsh/sessions"), ("*.jsonl", "*.jsonl.zstd"), project=_dsh_name),
    ), folder_at=(("cwd",),)),
    Agent("openhands", "OpenHands", ("openhands",), (
        Logs(("$OPENHANDS_CONVERSATIONS_DIR", "$OPENHANDS_PERSISTENCE_DIR/conversations", "~/.openhands/conversations"),
             ("base_state.json",)),
    ), folder_at=(("workspace", "working_dir"),)),
    Agent("mini-swe-agent", "mini-swe-agent", ("mini-swe-agent",), (
        Logs(("$MSWEA_GLOBAL_CONFIG_DIR", "{app}/mini-swe-agent",
              "{local}/mini-swe-agent/mini-swe-agent"), ("*.traj.json",), deep=False),
    ), folder_at=(("info", "config", "environment", "cwd"),)),
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
    """Where lore runs."""

    environment: Mapping[str, str]
    home: str  # empty if unknown
    platform: str  # as `sys.platform` names it
    folder: str  # the current one

    @property
    def paths(self) -> ModuleType:
        """The module that joins paths of this platform."""
        return ntpath if self.platform == "win32" else posixpath

    def roots(self) -> dict[str, str]:
        """Return the folders that roots of paths stand for; empty if unknown."""
        join, home, get = self.paths.join, self.home, self.environment.get
        at_home = {name: join(home, *path.split("/")) if home else "" for name, path in _AT_HOME.items()}
        data = get("XDG_DATA_HOME") or at_home["data"]
        if self.platform == "win32":
            app, local = get("APPDATA") or at_home["roaming"], get("LOCALAPPDATA") or at_home["local"]
        elif self.platform == "darwin":
            app = local = at_home["support"]
        else:
            app, local = get("XDG_CONFIG_HOME") or at_home["config"], data
        cache = cache_root(self.environment, home, self.platform)
        return {"~": home, "{data}": data, "{app}": app, "{local}": local, "{cache}": cache, "{folder}": self.folder}


_AT_HOME = {
    "data": ".local/share", "config": ".config", "support": "Library/Application Support",
    "roaming": "AppData/Roaming", "local": "AppData/Local",
}  # fmt: skip


class LogPlace(NamedTuple):
    """A place of an agent's logs; its path may have a `*`."""

    agent: Agent
    path: str
    logs: Logs


def places(surroundings: Surroundings, *, project: bool = False) -> Iterator[LogPlace]:
    """Yield where agents keep logs, in the order of the table; with `project` only places of the current folder."""
    for agent in AGENTS:
        for logs in agent.logs:
            if project and (logs.project is None or not surroundings.folder):
                continue
            for path in _resolve_paths(logs.paths, surroundings):
                name = logs.project(surroundings.folder) if project and logs.project is not None else ""
                project_path = path.replace("*", name) if "*" in path else surroundings.paths.join(path, name)
                yield LogPlace(agent, project_path if name else path, logs)


def read_places(surroundings: Surroundings, *, project: bool = False) -> list[LogPlace]:
    """Return the places, as `places` does, whose logs lore reads."""
    return [place for place in places(surroundings, project=project) if place.agent.is_read]


def _resolve_paths(paths: tuple[str, ...], surroundings: Surroundings) -> list[str]:
    """Return the paths that a row of the table stands for: that of a variable that is set, else all without one."""
    names = [path.split("/") for path in paths]
    for root, *below in names:
        value = surroundings.environment.get(root[1:]) if root.startswith("$") else None
        if value:
            is_at_home = value == "~" or value.startswith(("~/", "~\\"))
            return [surroundings.paths.join(surroundings.home + value[1:] if is_at_home else value, *below)]
    roots = surroundings.roots()
    resolved = (surroundings.paths.join(roots[root], *below) for root, *below in names if roots.get(root))
    return list(dict.fromkeys(resolved))


def agent_named(name: str) -> Agent:
    """Return the agent of this name; raises LoreError if the table has none."""
    agents = {agent.name: agent for agent in AGENTS}
    if name not in agents:
        raise LoreError(f"no agent is called {name!r}", hint=did_you_mean(name, agents, "agents"))
    return agents[name]


# the disk


def existing(place: LogPlace) -> list[LogPlace]:
    """Return the folders and files that a place stands for and that exist."""
    base, star, below = place.path.partition("*")
    if not star:
        return [place] if os.path.exists(place.path) else []
    try:
        names = sorted(entry.name for entry in os.scandir(base) if entry.is_dir())
    except (OSError, ValueError):
        return []
    paths = (base + name + below for name in names)
    return [place._replace(path=path) for path in paths if os.path.isdir(path)]


def is_place_of_logs(folder: str) -> bool:
    """Return whether a folder, such as `.claude`, holds logs of an agent on this disk.

    The folder above it is taken as the home folder, whoever it belongs to.
    """
    home, prefix = os.path.dirname(folder), os.path.join(folder, "")
    of_home = places(Surroundings({}, home, sys.platform, ""))
    return any(place.path.startswith(prefix) and existing(place) for place in of_home)


def files_of(place: LogPlace, failed_on: Callable[[str, LoreError], None]) -> Iterator[str]:
    """Yield the logs at an existing place, in the order of their names."""
    if os.path.isfile(place.path):
        yield place.path
        return
    if place.logs.deep:
        files = corpus.files_below(place.path, failed_on)
    else:
        files = sorted(os.path.join(place.path, entry.name) for entry in corpus.list_folder(place.path, failed_on))
    for file in files:
        name = os.path.basename(file)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in place.logs.names) and os.path.isfile(file):
            yield file


# what a log, and the files next to it, say of a session

_LINES = 40  # of a log that are searched
_BEGINNING = 8_192  # bytes of a document that are searched if its first object is not whole
_FOLDERS_AT = tuple(dict.fromkeys(path for agent in AGENTS for path in agent.folder_at))
_BESIDE = tuple(dict.fromkeys(agent.beside for agent in AGENTS if agent.beside is not None))
_NAMED = re.compile(rb'"(?:cwd|directory|working_dir)"\s*:\s*("(?:[^"\\]++|\\.)++")')


def project_of(head: bytes, path: str) -> str | None:
    """Return the folder that a session was started in; None if unknown."""
    return project_in(head) or project_beside(path)


def project_in(head: bytes) -> str | None:
    """Return the folder that the beginning of a log names."""
    for line in islice(nonblank_lines(head), _LINES):
        record = raw_members(line.strip(SPACE))
        if record is None:
            break
        for names in _FOLDERS_AT:
            if folder := text_at_path(record, names):
                return folder
    header = head[:_BEGINNING].partition(b'"messages"')[0] if head[:1] == b"{" else b""  # calls name folders, too
    match = _NAMED.search(header)
    return None if match is None else decoded_path(match[1])


def project_beside(path: str) -> str | None:
    """Return the folder that files next to a log name."""
    return next((folder for read in _BESIDE if (folder := read(path)[0])), None)


def title_beside(path: str) -> str | None:
    """Return the title of a session that its agent keeps in a file next to the log."""
    return next((title for read in _BESIDE if (title := read(path)[1])), None)
