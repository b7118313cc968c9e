"""What a piece of text is about, by the words around it: a repository's state, memory, a reminder.

In: the text before a difference and the text that differs. Out: a topic. Rules: markers are those that agents
write (git's own output, trees, tags and headings of memory and of reminders); nothing is guessed from plain words.
"""

from __future__ import annotations

import re

LOOK_BACK = 4_096  # characters before a difference in which its heading is sought

_GIT_LINE = re.compile(
    r"(?m)^(?:[ \t]*[MADRCU?!]{1,2}[ \t]+[\w./-]+[\w/.][ \t]*$|##? ?[\w./-]{1,80}\.\.\.|On branch |Your branch is "
    r"|(?:Current |Main |Git )?[Bb]ranch(?: \([^)\n]{0,80}\))?: |(?:Git )?[Ss]tatus: "
    r"|[ \t]*(?:modified|new file|deleted|renamed):"
    r"|[0-9a-f]{7,40} \S|commit [0-9a-f]{7,40}|Recent commits|(?:HEAD|Last commit|Commit)\b[^\n]{0,20}[:=]"
    r"|(?:\d+ )?(?:un)?(?:staged|tracked|committed) (?:changes|files)|nothing to commit)"
    r"|(?i:\bgit ?status\b|\bworking tree\b|\bworking copy\b)"
)
_TREE_LINE = re.compile(r"(?m)^[ \t│|]*(?:├──|└──|\|--|`--|\+--)|(?:├|└)─")
_GIT_HEAD = re.compile(
    r"(?i)git ?status|git[ -](?:state|info|branch|log|diff)|recent commits|current branch"
    r"|directory (?:structure|tree|listing)"
    r"|(?:file|project|folder|repo(?:sitory)?|workspace|source) (?:structure|tree|listing|map|layout)"
)
_MEMORY_HEAD = re.compile(
    r"(?i)\bmemor(?:y|ies)\b|\bknowledge(?: base)?\b|\bretriev(?:ed|al)\b|\brecall(?:ed)?\b|\bremembered\b|\brag\b"
    r"|\b(?:relevant|additional|provided|reference|background|project|user|search|session|loaded)[ _-]"
    r"(?:context|documents?|snippets?|notes|results|passages|facts|preferences)\b|^<?/?(?:context|documents?|facts|notes)\b"
    r"|\bclaude\.?md\b|\bagents\.md\b|\b(?:context|documents|passages) *$"
)
_HEADING = re.compile(r"(?m)^(?:#{1,6} [^\n]{1,120}|<(/?)([A-Za-z][\w:.-]{0,60})[^>\n]{0,120}>|\[[^\]\n]{1,60}\][ \t]*$"
                      r"|[A-Za-z][\w -]{0,60}:[ \t]*(?=\n|$)|(?:gitStatus|git_status):[^\n]{0,200}"
                      r"|[^\n]{1,100}:[ \t]*$)")  # fmt: skip
_JOINED = re.compile(r"[_-]+|(?<=[a-z])(?=[A-Z])")
_REMINDER = re.compile(
    r"(?i)<(?:system[-_ ]?(?:reminder|warning|notice|note|message)|reminder|notice|ide_\w{1,40}|environment_details"
    r"|environment_context|total_tokens|user-prompt-submit-hook|hook|todo\w{0,20}|attached?_?\w{0,20})\b"
    r"|^\W{0,4}(?:system[ -])?reminder\b|^\W{0,4}\[?system\b[\]:]"
)


def topic(before: str, mine: str, theirs: str) -> str | None:
    """Name what a difference is about: `git`, `memory`, or nothing that is known."""
    for text in (mine, theirs):
        if _GIT_LINE.search(text, 0, LOOK_BACK) or _TREE_LINE.search(text, 0, LOOK_BACK):
            return "git"
    for text in (mine, theirs):
        first = text.lstrip()[:200].partition("\n")[0]
        if _is_heading(first) and (found := _of_heading(first)) is not None:
            return found
    for heading in _headings(before[-LOOK_BACK:]):
        found = _of_heading(heading)
        if found is not None:
            return found
    return None


def _is_heading(line: str) -> bool:
    match = _HEADING.match(line)
    return match is not None or bool(re.match(r"[A-Za-z][\w -]{0,60}: ", line))


def _of_heading(heading: str) -> str | None:
    words = _in_words(heading)
    if _GIT_HEAD.search(words):
        return "git"
    return "memory" if _MEMORY_HEAD.search(words) else None


def _in_words(heading: str) -> str:
    """Spell a name as words, however it was put together: `gitStatus`, `retrieved_context`, `memory-bank`."""
    return _JOINED.sub(" ", heading.strip("<># :[]")).strip()


def _headings(before: str) -> list[str]:
    """Return the headings that the end of a text stands under: open tags, and the last heading or label."""
    tags: list[tuple[str, str]] = []
    last: list[str] = []
    for match in _HEADING.finditer(before):
        name = match.group(2)
        if name is None:
            if match.group().startswith("#"):
                last = [match.group()]
            else:
                last = [*last[:1], match.group()]
        elif not match.group(1):
            tags.append((name, match.group()))
        else:
            while tags and tags.pop()[0] != name:
                pass
            last = []
    label = (
        [last[-1]] if last and not last[-1].startswith("#") and "\n\n" not in before[before.rfind(last[-1]) :] else []
    )
    title = [last[0]] if last and last[0].startswith("#") else []
    return [*label, *title, *(text for _, text in reversed(tags))]


def is_reminder(text: str) -> bool:
    """Tell whether a text says that no user wrote it: a reminder, the state of an environment, a hook's output."""
    return _REMINDER.search(text.lstrip()[:300]) is not None
