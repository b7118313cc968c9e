"""The table of commands: where each stands in `lore --help`, what to type first, and its page of the guide.

A command is a row here and a function of a module of this package, or its `app` where it has commands of its own
(`SUBCOMMANDS` has their examples). Its words come from docstrings; a module is imported when its command runs, or is
listed. Standard library alone.

A plug-in adds a command by publishing a `CommandRow` under the entry-point group `lore.commands`, by the command's
name; `place` is then a whole import path.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from lore.errors import LoreError, lacks_plug_in
from lore.plugins import published

Example = tuple[str, str]  # what to type behind `lore `, and what it does


class CommandRow(NamedTuple):
    """A command."""

    group: str  # of `lore --help`
    page: str  # of the guide
    examples: tuple[Example, ...]
    place: str = ""  # MODULE:FUNCTION below this package; empty: `run` in the module of the command's name
    runs: bool = False  # what follows its arguments is the command line of another program
    subcommands: Mapping[str, tuple[Example, ...]] = {}  # "NAME SUBCOMMAND" -> examples
    schemas: Mapping[str, str] = {}  # for `lore schema`: name -> MODULE:STRUCT of a result of a plug-in


_BODIES = "fixtures/bodies/anthropic/date_in_system"

LOOK = "See what agents did, and what it cost"
JUDGE = "Find what breaks the cache"
BUILD = "Build prompts that stay cached"
KEEP = "Keep and compact sessions"
ABOUT = "About lore"

COMMANDS: dict[str, CommandRow] = {
    "sessions": CommandRow(
        LOOK, "spending", (
            ("sessions", "what agents keep on this machine, the newest first"),
            ("sessions --agent codex --since 1d", "of one agent, written today"),
        ),
        "spending:sessions",
    ),
    "watch": CommandRow(
        LOOK, "running", (
            ("watch", "the newest session of this project, else of this machine, on a screen"),
            ("watch session.jsonl --json", "a line of JSON at each change"),
        ),
        "live:watch",
    ),
    "statusline": CommandRow(
        LOOK, "running", (
            ("statusline --install", "the settings that put it into Claude Code and tmux"),
            ("statusline .", "the newest session of this project, in one line"),
        ),
        "live:statusline",
    ),
    "simulate": CommandRow(
        LOOK, "simulate", (
            ("simulate fixtures/recordings", "what a cache would read, beside what was billed"),
            ("simulate fixtures/recordings --what-if ttl=1h", "the same with a longer lifetime, and the difference"),
        ),
    ),
    "fold": CommandRow(
        LOOK, "fold", (
            ("fold fixtures/sessions/compaction_keeps_some.jsonl", "the timeline, with what each request paid"),
            ("fold session.jsonl --follow", "and what comes, while it is written"),
        ),
    ),
    "report": CommandRow(
        LOOK, "reports", (
            ("report --format trace fixtures/recordings -o trace.json", "requests on a time line, for ui.perfetto.dev"),
            ("report --format trace --last --redact -o trace.json", "the newest session, without content"),
        ),
    ),
    "check": CommandRow(
        JUDGE, "check", (
            ("check fixtures/recordings", "exit code 1 where a recording wastes its cache"),
            ("check --last", "the newest session of an agent in this project"),
        ),
    ),
    "lint": CommandRow(
        JUDGE, "other-languages", (
            (f"lint {_BODIES}/turn1.json", "whether one request would be cached, and why not"),
            ("lint fixtures/recordings --report github", "a folder of request bodies, as annotations in CI"),
        ),
    ),
    "diff-prefix": CommandRow(
        JUDGE, "compare", (
            (f"diff-prefix {_BODIES}/turn1.json {_BODIES}/turn2.json", "two requests"),
            ("diff-prefix fixtures/recordings/clock_in_system.jsonl", "every successive pair of a session"),
        ),
        "diff_prefix:run",
    ),
    "compare": CommandRow(
        JUDGE, "compare", (
            ("compare before/ after/", "two folders side by side, with intervals"),
            ("compare 14d..7d 7d..", "the last week of all agents here, and the one before"),
        ),
        "spending:compare",
    ),
    "explain": CommandRow(
        JUDGE, "check", (
            ("explain LORE101", "what a code means, and how to mend it"),
            ("explain", "all codes"),
        ),
        "about:explain",
    ),
    "assemble": CommandRow(
        BUILD, "assemble", (
            ("assemble fixtures/sessions/knowledge.jsonl --turn 3", "the request body of a turn"),
            ("assemble fixtures/sessions/knowledge.jsonl --explain", "its segments, breakpoints and origins"),
        ),
    ),
    "knowledge": CommandRow(
        BUILD, "assemble", (("knowledge list fixtures/sessions/knowledge.jsonl", "what a session knows"),),
        "stored.knowledge",
    ),
    "store": CommandRow(
        KEEP, "stores", (
            ("store import ~/.claude/projects --store sqlite:sessions.db", "what is new, each time"),
            ("store list --store sqlite:sessions.db", "what it holds"),
        ),
        "stored.store",
    ),
    "compact": CommandRow(
        KEEP, "compact", (
            (
                "compact fixtures/compaction/two_days.jsonl --policy fixtures/compaction/policy.toml --dry-run",
                "what a policy would have saved; nothing is written",
            ),
            ("compact session.jsonl --dry-run --window 200000", "compacted before a prompt exceeds so many tokens"),
        ),
        "stored.compact:run",
    ),
    "convert": CommandRow(
        KEEP, "convert", (
            ("convert fixtures/claude-code/compaction.jsonl --to lore", "any session as lore's own log"),
            ("convert requests.har --to bodies --output bodies.jsonl", "recorded requests as lines of bodies"),
        ),
        "stored.convert:run",
    ),
    "trust": CommandRow(
        KEEP, "compact", (
            ("trust", "approve the settings found here: the commands, endpoints and keys that they name"),
            ("trust --list", "what is approved"),
            ("trust --remove .", "take the approval of this folder back"),
        ),
        "stored.trust:run",
    ),
    "formats": CommandRow(
        ABOUT, "formats", (("formats", "what lore reads, and what each format can answer"),), "about:formats",
    ),
    "schema": CommandRow(ABOUT, "reports", (("schema check", "the form of `lore check --json`"),), "about:schema"),
    "guide": CommandRow(
        ABOUT, "start", (("guide", "the pages of the guide"), ("guide check --plain", "one of them, as Markdown")),
        "about:guide",
    ),
    "help": CommandRow(
        ABOUT, "start", (("help check", "what `lore check --help` prints"), ("help store import", "of a subcommand")),
        "about:help_of",
    ),
}  # fmt: skip

# What is typed behind `lore COMMAND`, for commands below one.
SUBCOMMANDS: dict[str, tuple[Example, ...]] = {
    "knowledge list": (("knowledge list fixtures/sessions/knowledge.jsonl", "with where the prompt holds each entry"),),
    "knowledge add": (
        ('knowledge add session.jsonl --category facts --title Python --content "3.11 is the oldest."', ""),
    ),
    "knowledge update": (('knowledge update session.jsonl 1a2b3 --content "3.12 is the oldest."', ""),),
    "knowledge remove": (("knowledge remove session.jsonl 1a2b3", "an entry, by the beginning of its id"),),
    "store import": (("store import ~/.claude/projects --store sqlite:sessions.db", "done again: what is new since"),),
    "store export": (("store export SESSION_ID --store sqlite:sessions.db --output session.jsonl", ""),),
    "store append": (("store append s1 --store jsonl:sessions", "events from standard input, a line each"),),
    "store list": (("store list --store sqlite:sessions.db --since 1d", "what was used today"),),
    "store show": (("store show SESSION_ID --store sqlite:sessions.db", ""),),
    "store delete": (("store delete SESSION_ID --store sqlite:sessions.db", "with the sessions forked from it"),),
    "store move": (("store move SESSION_ID app --store sqlite:sessions.db", "to another project"),),
    "store bind": (("store bind client-1 SESSION_ID --store sqlite:sessions.db", ""),),
    "store resolve": (("store resolve client-1 --store sqlite:sessions.db", ""),),
    "store verify": (("store verify --store sqlite:sessions.db", "exit code 1 where something is damaged"),),
    "store vacuum": (("store vacuum --store sqlite:sessions.db", ""),),
}

GROUPS = (LOOK, JUDGE, BUILD, KEEP, ABOUT)
# Commands of lore's own plug-ins: the plug-in that brings each.
BROUGHT: dict[str, str] = {"memory": "memory", "record": "record", "replay": "replay"}


@cache
def commands() -> dict[str, CommandRow]:
    """Return all commands, those of plug-ins included, in the order of the help.

    Raises LoreError for a plug-in that cannot be loaded.
    """
    rows = dict(COMMANDS)
    for point in published("lore.commands"):
        if point.name in rows:
            continue
        try:
            rows[point.name] = point.load()
        except Exception as error:  # noqa: BLE001 - anything may be wrong with code of others
            message = f"the plug-in for the command {point.name!r} cannot be loaded: {error}"
            raise LoreError(message, hint=f"repair or remove {point.value}") from None
    return dict(sorted(rows.items(), key=lambda row: GROUPS.index(row[1].group)))


def subcommands() -> dict[str, tuple[Example, ...]]:
    """Return the examples of all commands below a command, by "NAME SUBCOMMAND"."""
    return SUBCOMMANDS | {name: typed for row in commands().values() for name, typed in row.subcommands.items()}


def missing_command(name: str) -> LoreError | None:
    """Return the error for a command of a plug-in that is not installed; None for any other name."""
    return lacks_plug_in(BROUGHT[name], f"lore {name}") if name in BROUGHT else None


# Of bare `lore`.
EXAMPLES: tuple[Example, ...] = (
    ("", "what agents spent here in the last 7 days, and what to change first"),
    ("check fixtures/recordings", "judge recordings; exit code 1 where one wastes its cache"),
    ("guide", "the manual, by subject"),
)
