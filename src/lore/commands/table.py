"""The table of commands: group in `lore --help`, examples, page of the guide.

A command is a row here and a function of a module of this package, or the `app` of a module if it has subcommands
(their examples are in `SUBCOMMANDS`). Help texts come from docstrings. A module is imported when its command runs, and
may import at once what the command needs.

A plug-in adds a command by publishing a `CommandRow` under the entry-point group `lore.commands`, by the command's
name; `place` is then a whole import path.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from lore.errors import LoreError
from lore.plugins import entry_points

Example = tuple[str, str]  # what to type after `lore `, and the result


class CommandRow(NamedTuple):
    """A command."""

    group: str  # of `lore --help`
    page: str  # of the guide
    summary: str  # in `lore --help`: the first sentence of its own help
    examples: tuple[Example, ...]
    place: str = ""  # MODULE:FUNCTION below this package; empty: `run` in the module of the command's name
    runs: bool = False  # the words after its arguments are the command line of another program
    subcommands: Mapping[str, tuple[Example, ...]] = {}  # "NAME SUBCOMMAND" -> examples
    schemas: Mapping[str, str] = {}  # for `lore schema`: name -> MODULE:STRUCT of a result of a plug-in


_BODIES = "fixtures/bodies/anthropic/date_in_system"

LOOK = "See what agents did and spent"
JUDGE = "Find what breaks the cache"
BUILD = "Build prompts that stay cached"
KEEP = "Keep and compact sessions"
ABOUT = "About lore"

COMMANDS: dict[str, CommandRow] = {
    "sessions": CommandRow(LOOK, "spending", "List the sessions that agents keep here, the newest first.", (
        ("sessions", "all sessions on this machine, newest first"),
        ("sessions --agent codex --since 1d", "of one agent, written today"),
    ), "spending:sessions"),
    "watch": CommandRow(
        LOOK, "running",
        "Show the running session: prompt size, read and re-billed per turn, cache expiry, last break, what to do.", (
            ("watch", "the newest session of this project, or of this machine, updated live"),
            ("watch session.jsonl --json", "a line of JSON at each change"),
        ),
    ),
    "statusline": CommandRow(
        LOOK, "running",
        "Print one line about the running session: prompt size, share read, re-billed, cache expiry, last break.", (
            ("statusline --install", "settings for Claude Code and tmux"),
            ("statusline .", "the newest session of this project, in one line"),
        ),
    ),
    "simulate": CommandRow(LOOK, "simulate", "Predict what a cache reads, writes and costs.", (
        ("simulate fixtures/recordings", "predicted cache reads next to the billed ones"),
        ("simulate fixtures/recordings --what-if ttl=1h", "the same with a longer lifetime, and the difference"),
    )),
    "fold": CommandRow(
        LOOK, "fold",
        "Show a session's timeline: messages, tool calls, compactions, and the usage of each request.", (
            ("fold fixtures/sessions/compaction_keeps_some.jsonl", "the timeline, with the usage of each request"),
            ("fold session.jsonl --pruned", "the items that compactions removed"),
        ),
    ),
    "report": CommandRow(LOOK, "reports", "Write recordings in a form that another program shows.", (
        ("report --format trace fixtures/recordings -o trace.json", "requests on a time line, for ui.perfetto.dev"),
        ("report --format trace --last --redact -o trace.json", "the newest session, without content"),
    ), "spending:report"),
    "check": CommandRow(JUDGE, "check", "Find cache breaks in recordings: the cause, cost and fix of each.", (
        ("check fixtures/recordings", "exit code 1 if a recording wastes its cache"),
        ("check --last", "the newest session of an agent in this project"),
    )),
    "lint": CommandRow(
        JUDGE, "lint",
        "Predict if a request is cached, which part, for how long, with what saving; and report its faults.", (
            (f"lint {_BODIES}/turn1.json", "whether a request would be cached"),
            ("lint fixtures/recordings --report github", "each request of a folder, as annotations in CI"),
        ),
    ),
    "diff-prefix": CommandRow(
        JUDGE, "compare", "Compare two turns: the unchanged prefix, the first difference and its cause.", (
            (f"diff-prefix {_BODIES}/turn1.json {_BODIES}/turn2.json", "two requests"),
            ("diff-prefix fixtures/recordings/clock_in_system.jsonl", "the pairs of a session that differ"),
        ),
        "diff_prefix:run",
    ),
    "compare": CommandRow(JUDGE, "compare", "Compare two sides: tokens read and re-billed, and cost.", (
        ("compare before/ after/", "two folders of recordings side by side"),
        ("compare 14d..7d 7d..", "the last week of all agents here, and the one before"),
    )),
    "explain": CommandRow(JUDGE, "check", "Explain a finding code; without one, list all codes.", (
        ("explain LORE101", "what a code means, and its fix"),
        ("explain", "all codes"),
    ), "about:explain"),
    "assemble": CommandRow(BUILD, "assemble", "Write the request body of a turn (default: the last).", (
        ("assemble fixtures/sessions/knowledge.jsonl --turn 3", "the request body of a turn"),
        ("assemble fixtures/sessions/knowledge.jsonl --explain", "its segments, breakpoints and origins"),
    )),
    "knowledge": CommandRow(
        BUILD, "knowledge", "List and change what a session knows.",
        (("knowledge list fixtures/sessions/knowledge.jsonl", "a session's knowledge"),),
        "knowledge",
    ),
    "store": CommandRow(KEEP, "stores", "Keep sessions in a store, saved by delta.", (
        ("store import ~/.claude/projects --store sqlite:sessions.db", "imports new sessions each time"),
        ("store list --store sqlite:sessions.db", "all stored sessions"),
    ), "store"),
    "compact": CommandRow(KEEP, "compact", "Compact a session now, or try a policy on any recording.", (
        (
            "compact fixtures/compaction/two_days.jsonl --policy fixtures/compaction/policy.toml --dry-run",
            "estimated savings; nothing is written",
        ),
        ("compact session.jsonl --dry-run --window 200000", "savings with a window of 200,000 tokens"),
    )),
    "convert": CommandRow(KEEP, "convert", "Write a session as lore's own log, or requests as bodies.", (
        ("convert fixtures/claude-code/compaction.jsonl --to lore", "any session as lore's own log"),
        ("convert requests.har --to bodies --output bodies.jsonl", "recorded requests as lines of bodies"),
    )),
    "trust": CommandRow(KEEP, "trust", "Approve the commands, endpoints and keys that a folder's settings name.", (
        ("trust", "approve the commands, endpoints and keys in the settings of this folder"),
        ("trust --list", "approved settings"),
        ("trust --remove .", "revoke the approval of this folder"),
    )),
    "formats": CommandRow(
        ABOUT, "formats", "List the formats that lore reads, and the data in each.",
        (("formats", "supported formats and their data"),), "about:formats",
    ),
    "schema": CommandRow(
        ABOUT, "reports", "Print the JSON Schema of a result.",
        (("schema check", "the schema of `lore check --json`"),), "about:schema",
    ),
    "guide": CommandRow(
        ABOUT, "start", "Read the manual, one page per subject.",
        (("guide", "the pages of the guide"), ("guide check", "one of them")),
        "about:guide",
    ),
    "help": CommandRow(
        ABOUT, "start", "Show the help of a command, like --help; without one, of lore.",
        (("help check", "what `lore check --help` prints"), ("help store import", "of a subcommand")),
        "about:help_of",
    ),
}  # fmt: skip

# Examples of subcommands, by "COMMAND SUBCOMMAND".
SUBCOMMANDS: dict[str, tuple[Example, ...]] = {
    "knowledge list": (
        ("knowledge list fixtures/sessions/knowledge.jsonl", "entries, and their places in the prompt"),
    ),
    "knowledge add": (
        ('knowledge add session.jsonl --category facts --title Python --content "3.11 is the oldest."', ""),
    ),
    "knowledge update": (('knowledge update session.jsonl 1a2b3 --content "3.12 is the oldest."', ""),),
    "knowledge remove": (("knowledge remove session.jsonl 1a2b3", "an entry, by the first characters of its id"),),
    "store import": (
        ("store import ~/.claude/projects --store sqlite:sessions.db", "run it again to import new sessions"),
    ),
    "store export": (("store export SESSION_ID --store sqlite:sessions.db --output session.jsonl", ""),),
    "store append": (("store append s1 --store jsonl:sessions", "events from standard input, one a line"),),
    "store list": (("store list --store sqlite:sessions.db --since 1d", "sessions used today"),),
    "store show": (("store show SESSION_ID --store sqlite:sessions.db", ""),),
    "store delete": (("store delete SESSION_ID --store sqlite:sessions.db", "with the sessions forked from it"),),
    "store move": (("store move SESSION_ID app --store sqlite:sessions.db", "to another project"),),
    "store bind": (("store bind client-1 SESSION_ID --store sqlite:sessions.db", ""),),
    "store resolve": (("store resolve client-1 --store sqlite:sessions.db", ""),),
    "store verify": (("store verify --store sqlite:sessions.db", "exit code 1 if an event is damaged"),),
    "store vacuum": (("store vacuum --store sqlite:sessions.db", ""),),
}

GROUPS = (LOOK, JUDGE, BUILD, KEEP, ABOUT)
# Commands of lore's own plug-ins: the plug-in that brings each.
BROUGHT: dict[str, str] = {"mcp": "mcp", "memory": "memory", "record": "record", "replay": "replay"}


@cache
def commands() -> dict[str, CommandRow]:
    """Return all commands, those of plug-ins included, in the order of the help.

    Raises LoreError for a plug-in that cannot be loaded.
    """
    rows = dict(COMMANDS)
    for point in entry_points("lore.commands"):
        if point.name in rows:
            continue
        try:
            rows[point.name] = point.load()
        except Exception as error:  # noqa: BLE001 - anything may be wrong with code of others
            message = f"the plug-in for the command {point.name!r} cannot be loaded: {error}"
            raise LoreError(message, hint=f"repair or remove {point.value}") from None
    return dict(sorted(rows.items(), key=lambda row: GROUPS.index(row[1].group)))


def subcommands() -> dict[str, tuple[Example, ...]]:
    """Return the examples of all subcommands, by "NAME SUBCOMMAND"."""
    return SUBCOMMANDS | {name: examples for row in commands().values() for name, examples in row.subcommands.items()}


def examples_of(path: str) -> tuple[Example, ...]:
    """Return the examples of a command ("check", "store import"), or of bare `lore` (empty)."""
    row = commands().get(path)
    return EXAMPLES if not path else row.examples if row is not None else subcommands().get(path, ())


# Examples of bare `lore`.
EXAMPLES: tuple[Example, ...] = (
    ("", "spending of the last 7 days, and the first thing to fix"),
    ("check fixtures/recordings", "find cache breaks; exit code 1 for waste"),
    ("guide", "the manual, by subject"),
)
