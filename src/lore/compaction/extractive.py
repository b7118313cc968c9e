"""Summarise messages by rule: no model, no network, and the same entries always give the same bytes.

The summary quotes; it never interprets. It holds what the user asked, the files that tools changed, the tool calls that
failed or still run, and the last exchange. A previous summary written by this module is continued section by section; a
summary written by anyone else is quoted, shortened. Each section has a share of the room, and lines that do not fit are
counted, so a summary that is continued again and again does not grow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from lore.asking import SummaryAnswer, SummaryRequest
from lore.compaction.entries import BYTES_PER_TOKEN, is_message
from lore.compaction.transcripts import clipped, result_of, summary_in, words
from lore.model.canonical import decode
from lore.model.items import AssistantMessage, ToolCall, UserMessage
from lore.model.state import Entry
from lore.prompt.layout import is_real
from lore.untrusted import cut_bytes, harmless, one_line

_HEAD = "Rule-based summary of {} earlier messages (the session's log keeps them):"
_OWN_HEAD = re.compile(r"\ARule-based summary of ([0-9]{1,9}) earlier messages ")
_OMITTED = re.compile(r"\A- \(([0-9]{1,9}) more\)\Z")
EARLIER, ASKED, CHANGED = "Earlier summary", "The user asked", "Files changed, latest last"
UNFINISHED, LAST, CURRENT = "Unfinished", "The last exchange", "The current exchange began"
_SHARES = {EARLIER: 0.15, ASKED: 0.30, CHANGED: 0.15, UNFINISHED: 0.10, LAST: 0.15, CURRENT: 0.15}
_FAILED, _RUNNING = "- failed: ", "- still running: "
_MOST_UNFINISHED = 50  # lines of a previous summary's section that are read
_GREETING_BYTES = 24  # a shorter first request ("hi", "/model") is not the session's task
_PATH_KEYS = ("file_path", "filePath", "path", "file", "filename", "notebook_path", "absolute_path", "target_file")
_WRITING_KEYS = ("old_string", "new_string", "old_str", "new_str", "file_text", "content", "edits", "new_source")
_WRITING_NAMES = re.compile(r"write|edit|create|replace|update|insert|delete|rename|move", re.IGNORECASE)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: ([^\n]{1,300})$", re.MULTILINE)
_OPENING_TAG = re.compile(r"\s*<([a-z]+(?:[-_][a-z]+)+)>")
_CLOSING_TAG = re.compile(r"</([a-z]+(?:[-_][a-z]+)+)>\s*\Z")


class Extractive:
    """The default summariser. Deterministic, pure, safe between threads. Costs O(bytes of the entries)."""

    name = "extractive"

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return a summary of at most `request.tokens` tokens, empty if that is 0. Never fails."""
        previous = harmless(request.previous or summary_in(request.entries)).strip()
        count, sections, omitted = _parse_summary(previous)
        exchanges = _exchanges(request.entries[: len(request.entries) - len(request.opening)])
        asked = [f"- {one_line(user, 400)}" for user, _ in exchanges[:-1] if user]
        sections[ASKED] = list(dict.fromkeys([*sections.get(ASKED, []), *asked]))
        sections[LAST], sections[CURRENT] = _quote(exchanges[-1:]), _quote(_exchanges(request.opening)[-1:])
        _add_calls(sections, [entry.item for entry in request.entries if isinstance(entry.item, ToolCall)])
        head = _HEAD.format(count + sum(is_message(entry.item) for entry in request.entries))
        room = request.tokens * BYTES_PER_TOKEN
        return SummaryAnswer(
            cut_bytes("\n\n".join([head, *_fit_sections(sections, omitted, room - len(head) - 2)]), room)
        )


def _parse_summary(text: str) -> tuple[int, dict[str, list[str]], dict[str, int]]:
    """Return a previous summary's message count, its lines by section, and the number of omitted lines by section.

    The requests of its last and current exchange are moved to the section of what the user asked.
    """
    own = _OWN_HEAD.match(text)
    if own is None:
        return 0, {EARLIER: [f"  {line.rstrip()}" for line in text.split("\n") if line.strip()]}, {}
    sections: dict[str, list[str]] = {}
    omitted: dict[str, int] = {}
    title = ""
    for line in text.split("\n")[1:]:
        if line[:-1] in _SHARES and line.endswith(":"):
            title = line[:-1]
        elif title and (more := _OMITTED.match(line)):
            omitted[title] = omitted.get(title, 0) + int(more[1])
        elif title and line:
            sections.setdefault(title, []).append(line)
    exchanges = [*sections.pop(LAST, []), *sections.pop(CURRENT, [])]
    sections.setdefault(ASKED, []).extend(f"- {line[6:]}" for line in exchanges if line.startswith("user: "))
    return int(own[1]), sections, omitted


def _exchanges(entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """Return each message that a person wrote, with the last assistant message that answers it."""
    found: list[tuple[str, str]] = []
    for entry in entries:
        item = entry.item
        if isinstance(item, UserMessage) and is_real(item) and (text := words_of_user(words(item))):
            found.append((text, ""))
        elif isinstance(item, AssistantMessage) and (text := words(item).strip()):
            found[-1:] = [(found[-1][0] if found else "", text)]
    return found


def _quote(exchanges: Iterable[tuple[str, str]]) -> list[str]:
    return [
        f"{role}: {one_line(clipped(text, 900), 1_000)}"
        for exchange in exchanges
        for role, text in zip(("user", "assistant"), exchange, strict=True)
        if text
    ]


def words_of_user(text: str) -> str:
    """Return a message without the tagged notes that a harness put around it; a tagged slash command stays as text."""
    begin, end = 0, len(text)
    command: dict[str, str] = {}
    while found := _OPENING_TAG.match(text, begin, end):
        close = text.find(f"</{found[1]}>", found.end(), end)
        if close < 0:
            break
        if found[1] in ("command-name", "command-args"):
            command[found[1]] = text[found.end() : close].strip()
        begin = close + len(found[1]) + 3
    while found := _CLOSING_TAG.search(text[max(begin, end - 200) : end]):
        start = text.rfind(f"<{found[1]}>", begin, end)
        if start < 0:
            break
        end = start
    called = " ".join(command.get(f"command-{part}", "") for part in ("name", "args"))
    return text[begin:end].strip() or called.strip()


def _add_calls(sections: dict[str, list[str]], calls: Sequence[ToolCall]) -> None:
    """Add the files that calls changed, and the calls that failed and were not tried again or that still run."""
    changed = dict.fromkeys(sections.get(CHANGED, ()))
    unfinished: dict[str, str] = {}
    tried = set[str]()
    for call in calls:
        try:
            value = decode(bytes(call.input))
        except (ValueError, RecursionError):
            value = None
        given = cast("dict[str, Any]", value) if isinstance(value, dict) else {"input": value}
        texts = [text for text in given.values() if isinstance(text, str)]
        path = next((given[key] for key in _PATH_KEYS if isinstance(given.get(key), str)), "")
        about = f"{one_line(call.name, 60)} {one_line(path or next(iter(texts), ''), 80)}"
        tried.add(f"{_FAILED}{about}: ")
        unfinished.pop(about, None)
        if call.status == "running":
            unfinished[about] = f"{_RUNNING}{about}"
        elif call.status == "failed":
            unfinished[about] = f"{_FAILED}{about}: {one_line(result_of(call), 160)}"
        else:
            files = [file for text in texts for file in _PATCHED.findall(text)]
            for file in [path, *files] if path and _is_write(call.name, given) else files:
                line = f"- {one_line(file, 300)}"
                changed.pop(line, None)
                changed[line] = None
    done = (*tried, _RUNNING) if calls else ()  # a call that ran then has ended or was given up by now
    earlier = [line for line in sections.get(UNFINISHED, ())[-_MOST_UNFINISHED:] if not line.startswith(done)]
    sections[CHANGED], sections[UNFINISHED] = list(changed), [*earlier, *unfinished.values()]


def _is_write(name: str, given: Mapping[str, Any]) -> bool:
    if given.get("command") == "view":
        return False
    return _WRITING_NAMES.search(name) is not None or any(key in given for key in _WRITING_KEYS)


def _fit_sections(sections: Mapping[str, Sequence[str]], omitted: Mapping[str, int], room: int) -> list[str]:
    """Return the sections as text in `room` bytes; what one leaves of its share goes to the sections before it."""
    written: list[str] = []
    spare = 0
    for title, share in reversed(_SHARES.items()):
        allowed = int(room * share) + spare
        text = _fit_lines(title, sections.get(title, ()), omitted.get(title, 0), allowed - 2)
        spare = max(0, allowed - (len(text.encode()) + 2 if text else 0))
        written += [text] if text else []
    return written[::-1]


def _fit_lines(title: str, lines: Sequence[str], omitted: int, room: int) -> str:
    """Return a section with its newest lines, as many as fit; the first request is kept, since it is the task."""
    room -= len(title) + 2 + len("- (999999999 more)\n")
    first: list[str] = []
    if title == ASKED and lines:
        at = next((at for at, line in enumerate(lines) if len(line.encode()) > _GREETING_BYTES), 0)
        first, lines, omitted = [_shorten(lines[at], room // 2)], lines[at + 1 :], omitted + at
    room -= sum(len(line.encode()) + 1 for line in first)
    newest: list[str] = []
    for line in reversed(lines):
        text = line if len(line.encode()) < room else _shorten(line, room - 1)
        if not text:
            break
        newest.append(text)
        room -= len(text.encode()) + 1
    omitted += len(lines) - len(newest)
    more = [f"- ({omitted} more)"] if omitted and title not in (LAST, CURRENT) else []
    shown = [line for line in [*first, *more, *reversed(newest)] if line]
    return "\n".join([f"{title}:", *shown]) if newest or any(first) else ""


def _shorten(line: str, most: int) -> str:
    """Return a line cut to `most` bytes; empty if too little of it would be left."""
    if len(line.encode()) <= most:
        return line
    return cut_bytes(line, most - 3).rstrip() + "…" if most >= 48 else ""
