"""The built-in summariser: no model, no network, the same entries give the same bytes.

It repeats and never judges; what does not fit is counted; the summary that is replaced is carried on, one of its own
line by line, another summariser's as a shortened text. Each section has its share of the room, so it never grows.

What entries say (`SummaryFacts`: requests, decisions, commits, files, what is open) is found by rule. Nothing is tuned
to one agent: paths are looked for under the names that agents' tools use (Claude Code, Codex, Gemini CLI, opencode, pi,
Copilot, OpenHands), in patches and in simple shell commands; what is not surely a path is left out. Sentences are
recognised in English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from lore.asking import SummaryAnswer, SummaryRequest
from lore.compaction.transcripts import clipped, result_of, summary_in, words
from lore.model.canonical import decode
from lore.model.items import AssistantMessage, ToolCall, UserMessage
from lore.model.state import Entry
from lore.prompt.entries import BYTES_PER_TOKEN, is_message
from lore.prompt.layout import is_real
from lore.untrusted import cut_bytes, harmless, one_line

_HEAD = "Of {} messages that left the context (the session's log keeps them), put together by rule, without a model:"
_OWN = re.compile(r"\AOf ([0-9]{1,9}) messages that left the context ")
_MORE = re.compile(r"\A- \(([0-9]{1,9}) more\)\Z")


class _Section(NamedTuple):
    """A part of the summary: its title, its share of the room, and who gets first what others leave (0: first)."""

    title: str
    share: float
    rank: int


_SECTIONS = {
    "earlier": _Section("An earlier summary said", 0.18, 7),
    "requests": _Section("The user asked", 0.20, 2),
    "decisions": _Section("Decided and found", 0.09, 4),
    "commits": _Section("Committed", 0.04, 6),
    "changed": _Section("Files changed, the latest last", 0.10, 5),
    "read": _Section("Files read, the latest last", 0.04, 8),
    "open": _Section("Open", 0.10, 3),
    "last": _Section("The last whole exchange", 0.15, 1),
    "opening": _Section("The exchange that goes on below began", 0.10, 0),
}
_TITLES = {f"{section.title}:": name for name, section in _SECTIONS.items()}
_KEEPS_FIRST = ("requests",)  # the first request is the task
MOST_OPEN = 50  # lines of an earlier summary's open points that are read
_GREETING = 24  # bytes
_PASSING = ("opening", "last")  # exchanges that are over when they are carried on: their requests are kept


class _SectionLines(NamedTuple):
    """What a section says; `more` lines were left out before."""

    lines: tuple[str, ...] = ()
    more: int = 0


class Extractive:
    """Sums up by rule. Deterministic, pure, safe between threads. Costs O(bytes of the entries)."""

    name = "extractive"

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return a summary of at most `request.tokens`; never fails. Empty where no token is allowed."""
        found = SummaryFacts(request.entries, len(request.entries) - len(request.opening))
        count, before = _before(request)
        if "open" in before and found.messages:
            before["open"] = _still_open(before["open"], found)
        sections: dict[str, _SectionLines] = {}
        for name, new in _new(found):  # each line once: where it came last, a request where it was made
            old = before.get(name, _SectionLines())
            lines = (*old.lines, *new)
            once = dict.fromkeys(lines) if name in _KEEPS_FIRST else reversed(dict.fromkeys(reversed(lines)))
            sections[name] = _SectionLines(tuple(once), old.more)
        head = _HEAD.format(found.messages + count)
        room = request.tokens * BYTES_PER_TOKEN
        body = _fitted(sections, room - len(head.encode()) - 2)
        return SummaryAnswer(cut_bytes("\n\n".join([head, *body]), room))


def _new(found: SummaryFacts) -> list[tuple[str, tuple[str, ...]]]:
    """Return what each section says of these entries, in the order of the summary."""
    talks, opening = found.talks, found.opening
    last = talks.pop() if talks else None
    return [
        ("earlier", ()),
        ("requests", tuple(_item(talk.user, 400) for talk in talks if talk.user)),
        ("decisions", tuple(map(_item, list(found.decisions)[-MOST_LINES:]))),
        ("commits", tuple(map(_item, list(found.commits)[-MOST_LINES:]))),
        ("changed", _files(found.changed)),
        ("read", _files({path: times for path, times in found.read.items() if path not in found.changed})),
        ("open", tuple(map(_item, found.open()))),
        ("last", _exchange(last) if last else ()),
        ("opening", _exchange(opening) if opening else ()),
    ]


def _item(text: str, most: int = 240) -> str:
    return "- " + one_line(text, most)


def _files(paths: dict[str, int]) -> tuple[str, ...]:
    return tuple(f"- {path}" + (f" ({times} times)" if times > 1 else "") for path, times in paths.items())


def _exchange(talk: UserExchange) -> tuple[str, ...]:
    texts = (("user", talk.user), ("assistant", talk.assistant))
    return tuple(f"{role}: {one_line(clipped(text, 900), 1_000)}" for role, text in texts if text)


def _before(request: SummaryRequest) -> tuple[int, dict[str, _SectionLines]]:
    """Read the summary that is replaced, the request's, else that of the last divider: its messages, its sections."""
    text = harmless(request.previous or summary_in(request.entries)).strip()
    own = _OWN.match(text)
    if own is not None:
        return int(own[1]), _read(text)
    return 0, {"earlier": _SectionLines(tuple(f"  {line.rstrip()}" for line in text.split("\n") if line.strip()))}


def _read(text: str) -> dict[str, _SectionLines]:
    """Read a summary of this class by its titles. Costs O(its length): it may have been written by anybody."""
    lines: dict[str, list[str]] = {}
    more: dict[str, int] = {}
    name = ""
    for line in text.split("\n")[1:]:
        if line in _TITLES:
            name = _TITLES[line]
        elif name and (found := _MORE.match(line)):
            more[name] = more.get(name, 0) + int(found[1])
        elif name and line:
            lines.setdefault(name, []).append(line)
    for passing in _PASSING:
        past = lines.pop(passing, [])
        requests = ["- " + one_line(line[6:], 400) for line in past if line.startswith("user: ")]
        lines.setdefault("requests", []).extend(requests)
    return {name: _SectionLines(tuple(lines.get(name, ())), more.get(name, 0)) for name in (*lines, *more)}


def _still_open(old: _SectionLines, found: SummaryFacts) -> _SectionLines:
    """Leave out what later messages settled: questions and running calls by being later, the rest by being tried."""
    over = tuple(f"- {begin}" for begin in (ASKED, RUNNING, INTERRUPTED, *([] if found.todos is None else [TO_DO])))
    lines = [line for line in old.lines[-MOST_OPEN:] if not line.startswith(over)]
    tried = tuple(f"- {FAILED}{call}: " for call in sorted(found.tried))
    return _SectionLines(tuple([line for line in lines if not line.startswith(tried)]), old.more)


def _fitted(sections: dict[str, _SectionLines], room: int) -> list[str]:
    """Give each section its share of the room, then what others leave, and write those that have something to say."""
    full = {name: _size(name, section) for name, section in sections.items() if section.lines or section.more}
    given = {name: min(size, int(room * _SECTIONS[name].share)) for name, size in full.items()}
    left = room - sum(given.values())
    for name in sorted(full, key=lambda name: _SECTIONS[name].rank):
        extra = min(full[name] - given[name], max(0, left))
        given[name] += extra
        left -= extra
    return [text for name in full if (text := _written(name, sections[name], given[name]))]


def _size(name: str, section: _SectionLines) -> int:
    more = 24 if section.more else 0
    return len(_SECTIONS[name].title) + 4 + more + sum([len(line.encode()) + 1 for line in section.lines])


def _written(name: str, section: _SectionLines, room: int) -> str:
    """Write a section in `room` bytes: the newest lines, and of requests the first that says more than a greeting."""
    chosen, title = list(section.lines), f"{_SECTIONS[name].title}:"
    if _size(name, section) > room:
        lines = section.lines
        if name in _KEEPS_FIRST:
            lines = lines[next((place for place, line in enumerate(lines) if len(line.encode()) > _GREETING), 0) :]
        chosen = _chosen(lines, room - len(title) - 27, first=name in (*_KEEPS_FIRST, *_PASSING))
    if not chosen:
        return ""
    more = section.more + len(section.lines) - len(chosen)
    lines = [title, *chosen]
    if more and name not in _PASSING:
        lines.insert(2 if name in _KEEPS_FIRST else 1, f"- ({more} more)")
    return "\n".join(lines)


def _chosen(lines: Sequence[str], room: int, *, first: bool) -> list[str]:
    """Choose the last lines that fit (and the first one), each shortened where it must be."""
    kept = [_cut(lines[0], room // 2)] if first and lines else []
    room -= sum(len(line.encode()) + 1 for line in kept)
    tail: list[str] = []
    for line in reversed(lines[len(kept) :]):
        text = line if len(line.encode()) < room else _cut(line, room - 1)
        if not text:
            break
        tail.append(text)
        room -= len(text.encode()) + 1
    return [line for line in [*kept, *reversed(tail)] if line]


def _cut(line: str, most: int) -> str:
    """Shorten a line to `most` bytes; empty where too little of it would be left."""
    if len(line.encode()) <= most:
        return line
    return cut_bytes(line, most - 3).rstrip() + "…" if most >= 48 else ""


FAILED, RUNNING, TO_DO = "failed, and not tried again: ", "still running: ", "to do"  # how what is open begins
ASKED, INTERRUPTED = "asked last, no answer yet: ", "the user interrupted the assistant"
MOST_LINES = 200  # lines of one kind kept: more never fit a summary
_DONE = frozenset(["completed", "complete", "done", "cancelled", "canceled", "deleted", "skipped"])
_ASKS = ("?", "？", "؟")
_DECIDED = re.compile(
    r"\b(?:decided|decision|we(?:'ll| will| should) (?:go with|use|keep)|going with|go with|chose|opted|settled on"
    r"|agreed|root cause|the (?:problem|issue|bug|reason) (?:is|was))\b",
    re.IGNORECASE,
)
_SIGNS = ("deci", "go with", "going with", "we'll", "we will", "we should", "chose", "opted", "settled on", "agreed",
          "root cause", "problem", "issue", "bug", "reason")  # fmt: skip
_MOST_ASKED = 400  # characters at the end of a line, searched for a question
_SHORTEST = 24  # characters of a sentence that says something by itself
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
_WRAPPER = re.compile(r"\s*<([a-z]+(?:[-_][a-z]+)+)>")
_CLOSING = re.compile(r"</([a-z]+(?:[-_][a-z]+)+)>\s*\Z")
_INTERRUPTED = "[Request interrupted"
_COMMIT = re.compile(r"\bgit\b[^\n]{0,80}?\bcommit\b")
_MESSAGE = re.compile(
    r"""(?:\s-[a-z]*m|--message)[\s=]*(?:"\$\(cat <<-?\s*\\?['"]?\w+['"]?\n([^\n]+)|"([^"\n]+)|'([^'\n]+))"""
)


class UserExchange(NamedTuple):
    """An exchange: what the user said, and what the assistant said last."""

    user: str
    assistant: str = ""


class SummaryFacts:
    """What entries say, oldest first; at `goes_on` begins an exchange whose end is not there. Costs O(their bytes).

    `changed` and `read` count by path, in the order of the last touch; `tried` are the calls that were made, as they
    stand in a line of what is open; `todos` is what the last list of things to do leaves open (None: there was none).
    """

    def __init__(self, entries: Iterable[Entry], goes_on: int | None = None) -> None:
        self.messages = 0
        self.decisions: dict[str, None] = {}
        self.commits: dict[str, None] = {}
        self.changed: dict[str, int] = {}
        self.read: dict[str, int] = {}
        self.tried: set[str] = set()
        self.todos: list[str] | None = None
        self._talks: list[UserExchange] = []
        self._ended: int | None = None
        self._failed: dict[tuple[str, str], str] = {}
        self._running: dict[str, str] = {}
        self._question = ""
        self._interrupted = False
        for place, entry in enumerate(entries):
            if place == goes_on:  # what it says is no part of the exchange before, though no words begin it
                self._ended = len(self._talks)
            item = entry.item
            self.messages += is_message(item)
            if isinstance(item, UserMessage):
                self._user(item)
            elif isinstance(item, AssistantMessage):
                self._assistant(words(item))
            elif isinstance(item, ToolCall):
                self._call(item)

    @property
    def talks(self) -> list[UserExchange]:
        """The whole exchanges."""
        return self._talks[: self._ended]

    @property
    def opening(self) -> UserExchange | None:
        """The exchange that goes on, as far as the entries have it."""
        begun = self._talks[len(self.talks) :]
        users = "\n".join(filter(None, [talk.user for talk in begun]))
        return UserExchange(users, begun[-1].assistant) if begun else None

    def open(self) -> Iterator[str]:
        """Yield what is open."""
        yield from (self.todos or [])[:MOST_LINES]
        yield from (f"{FAILED}{name} {what}: {why}" for (name, what), why in list(self._failed.items())[-8:])
        yield from (f"{RUNNING}{call}" for call in self._running.values())
        if self._interrupted:
            yield INTERRUPTED
        if self._question:
            yield f"{ASKED}{self._question}"

    def _user(self, item: UserMessage) -> None:
        text = said_by_user(words(item)) if is_real(item) else ""
        if text.startswith(_INTERRUPTED):
            self._interrupted = True
        elif text:
            if self._question and len(text) <= 300:
                self._decide(f"{self._question} → {text}")
            self._question, self._interrupted = "", False
            self._talks.append(UserExchange(text))

    def _assistant(self, text: str) -> None:
        if not text.strip():
            return
        if len(self._talks) == (self._ended or 0):
            self._talks.append(UserExchange(""))
        self._talks[-1] = self._talks[-1]._replace(assistant=text)
        self._question = _question(text)
        for sentence in _decided(text):
            self._decide(sentence)

    def _decide(self, text: str) -> None:
        self.decisions[one_line(text, 400)] = None

    def _call(self, call: ToolCall) -> None:
        try:
            given = decode(bytes(call.input))
        except (ValueError, RecursionError):
            given = None
        table = cast("dict[str, Any]", given) if isinstance(given, dict) else {"input": given}
        mentions = file_mentions(call.name, table)
        key = (one_line(call.name, 60), mentions.about)
        self._running.pop(call.call_id, None)
        self._failed.pop(key, None)
        self.tried.add(" ".join(key))
        if call.status == "running":
            self._running[call.call_id] = " ".join(key)
        elif call.status == "failed":
            if not mentions.looks:  # what looks and finds nothing leaves nothing undone
                self._failed[key] = one_line(result_of(call), 160)
        else:
            for into, paths in ((self.changed, mentions.changed), (self.read, mentions.read)):
                for path in paths:
                    into[path] = into.pop(path, 0) + 1
            todos = _todos(table)
            self.todos = self.todos if todos is None else todos
            if isinstance(table.get("questions"), list):
                self._decide(result_of(call))
            for value in table.values():
                if isinstance(value, str) and "commit" in value and _COMMIT.search(value):
                    for message in _MESSAGE.finditer(value):
                        self.commits[one_line(message[message.lastindex or 0])] = None


def said_by_user(text: str) -> str:
    """Return a person's words without what a harness wrapped around them; of a wrapped command name and arguments."""
    begin, end = 0, len(text)
    command: dict[str, str] = {}
    while found := _WRAPPER.match(text, begin, end):
        close = text.find(f"</{found[1]}>", found.end(), end)
        if close < 0:
            break
        if found[1] in ("command-name", "command-args"):
            command[found[1]] = text[found.end() : close].strip()
        begin = close + len(found[1]) + 3
    while found := _CLOSING.search(text[max(begin, end - 200) : end]):
        start = text.rfind(f"<{found[1]}>", begin, end)
        if start < 0:
            break
        end = start
    request = text[begin:end].strip()
    return request or " ".join(command.get(name, "") for name in ("command-name", "command-args")).strip()


def _question(text: str) -> str:
    """Return the question that a message ends with."""
    line = text.rstrip().rpartition("\n")[2].strip(" *_`)")
    if not line.endswith(_ASKS):
        return ""
    parts = re.split(r"(?<=[.!?？])\s+", line[-_MOST_ASKED:])
    return one_line(parts[-1], 200)


def _decided(text: str) -> Iterator[str]:
    """Yield the first two sentences that say what was decided or found."""
    lowered = text.lower()
    if not any(sign in lowered for sign in _SIGNS):  # the pattern takes ten times as long
        return
    end = 0
    for _ in range(2):
        found = _DECIDED.search(text, end)
        if found is None:
            return
        before = [
            sentence_end.end()
            for sentence_end in _SENTENCE_END.finditer(text, max(end, found.start() - 300), found.start())
        ]
        stop = _SENTENCE_END.search(text, found.end(), found.end() + 300)
        begin = before[-1] if before else max(end, found.start() - 300)
        end = stop.end() if stop else min(len(text), found.end() + 300)
        sentence = text[begin:end].strip(" \n-*#>")
        if len(sentence) >= _SHORTEST:
            yield sentence


def _todos(table: dict[str, Any]) -> list[str] | None:
    """Return what a list of things to do leaves open; None where a call has no such list."""
    for name in ("todos", "plan", "todo_list", "tasks"):
        items = table.get(name)
        if isinstance(items, list) and all(isinstance(item, dict) for item in cast("list[object]", items)):
            return [text for item in cast("list[dict[str, Any]]", items) if (text := _todo(item))]
    return None


def _todo(item: dict[str, Any]) -> str:
    status = item.get("status")
    if isinstance(status, str) and status.lower() in _DONE:
        return ""
    named = (item.get(name) for name in ("content", "step", "title", "text", "description", "subject"))
    text = next((value for value in named if isinstance(value, str) and value.strip()), "")
    begun = " (begun)" if status in ("in_progress", "active") else ""
    return f"{TO_DO}{begun}: {one_line(text)}" if text else ""


_PATHS = ("file_path", "filePath", "path", "file", "filename", "notebook_path", "absolute_path", "target_file")
_COMMANDS = ("command", "cmd", "script")
_SAYS = ("old_string", "new_string", "old_str", "new_str", "file_text", "content", "patch", "edits", "new_source")
_CHANGES = re.compile(r"write|edit|create|patch|replace|update|insert|delete|remove|rename|move|save", re.IGNORECASE)
_SEARCHES = re.compile(r"grep|glob|search|find|list|\bls\b|tree|screenshot|navigate", re.IGNORECASE)
_READS = re.compile(r"read|view|open|cat|show|get|load", re.IGNORECASE)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: ([^\n]{1,400})$", re.MULTILINE)
_HEREDOC = re.compile(r"<<-?\s*\\?['\"]?(\w{1,40})['\"]?")
_PATH = re.compile(r"(?=[^\s]*[A-Za-z])[\w./~+@:\\-]{1,300}")
_SEPARATORS = re.compile(r"&&|\|\||[;|\n]")
_INTO = re.compile(r"(?<![0-9&])>{1,2}\s*([^\s;&|<>]{1,300})")
_VERBS: dict[str, bool] = {
    **dict.fromkeys(("cat", "head", "tail", "less", "more", "nl", "bat"), False),
    **dict.fromkeys(("rm", "mv", "cp", "touch", "tee"), True),
}
_LOOKS = re.compile(r"(?:ls|find|grep|rg|which|test|cat|head|tail|diff|git (?:grep|diff|show|log|status))\b")
_MOST_COMMAND = 4_000  # characters of a shell command that are read
_PIECES = 40


class FileMentions(NamedTuple):
    """What a call is about in a few words, and the files that it reads and changes. `looks`: it only looks."""

    about: str
    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    looks: bool = False


def file_mentions(name: str, given: Mapping[str, Any]) -> FileMentions:
    """Return what a call touches."""
    lists = [cast("list[Any]", value) if isinstance(value, list) else [value] for value in given.values()]
    patches = [text for texts in lists for text in texts if isinstance(text, str) and "*** " in text]
    patched = tuple([one_line(found, 300) for text in patches for found in _PATCHED.findall(text)])
    if patched:
        return FileMentions(", ".join(patched[:3]), changed=patched)
    command = _command(given)
    path = next((given[key] for key in _PATHS if isinstance(given.get(key), str)), "")
    if path:
        return _by_path(name, given, path)
    if command:
        read, changed = _by_command(command)
        # Known again by its first three words, without a change of folder before them.
        pieces = [piece.strip() for piece in _SEPARATORS.split(command, _PIECES) if piece.strip()]
        chosen = next((piece for piece in pieces if not piece.startswith(("cd ", "export ", "#"))), command)
        head = one_line(" ".join(chosen.split()[:3]), 80)
        return FileMentions(head, read, changed, bool(_LOOKS.match(head)))
    first = next((value for value in given.values() if isinstance(value, str) and value), "")
    return FileMentions(one_line(first, 60), looks=bool(_SEARCHES.search(name)))


def _by_path(name: str, given: Mapping[str, Any], path: str) -> FileMentions:
    shown = one_line(path, 300)
    verb = given.get("command")
    what = f"{name} {verb}" if isinstance(verb, str) and len(verb) < 40 else name
    if _SEARCHES.search(name):
        pattern = given.get("pattern") or given.get("query") or ""
        about = f"{pattern} in {shown}" if isinstance(pattern, str) and pattern else shown
        return FileMentions(one_line(about, 120), looks=True)
    if verb != "view" and (_CHANGES.search(what) or any(key in given for key in _SAYS)):
        return FileMentions(shown, changed=(shown,))
    reads = bool(_READS.search(what))
    return FileMentions(shown, read=(shown,) if reads else (), looks=reads)


def _command(given: Mapping[str, Any]) -> str:
    for key in _COMMANDS:
        value = given.get(key)
        if isinstance(value, str):
            return value[:_MOST_COMMAND]
        if isinstance(value, list):
            words = [word for word in cast("list[object]", value) if isinstance(word, str)]
            return (words[-1] if words[1:2] in (["-lc"], ["-c"]) else " ".join(words))[:_MOST_COMMAND]
    return ""


def _by_command(command: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that a simple shell command reads and changes; a here-document's text is not a command."""
    first = _HEREDOC.search(command)
    if first is not None:
        line_end = command.find("\n", first.end())
        command = command if line_end < 0 else command[:line_end]
    read: dict[str, None] = {}
    changed: dict[str, None] = {}
    for piece in _SEPARATORS.split(command, _PIECES)[:_PIECES]:
        verb, *rest = [word.strip("'\"") for word in _INTO.sub(" ", piece).split()] or [""]
        changes = _VERBS.get(verb, False)
        if verb == "sed":
            changes = any(word.startswith("-i") for word in rest)
            rest = rest[-1:] if len(rest) > 1 else []
        if verb == "sed" or verb in _VERBS:
            (changed if changes else read).update(dict.fromkeys(_paths_in(rest)))
        changed.update(dict.fromkeys(_paths_in([found.strip("'\"") for found in _INTO.findall(piece)])))
    return tuple(read), tuple(changed)


def _paths_in(words: list[str]) -> Iterator[str]:
    for word in words:
        is_path = _PATH.fullmatch(word) and not word.startswith(("-", "/dev/", "http:", "https:"))
        if is_path and ("." in word.strip("./") or "/" in word.strip("/")):
            yield word
